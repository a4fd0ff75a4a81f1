"""The builder of the capability `sources`: manage sources and their files, and index them."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.config.settings import Settings
from app.providers.source_folders import PosixSourceFolders
from app.source_ports import SourceFolders
from app.storage.jobs.jobs import JobStorage
from app.storage.memory.memories import MemoryStorage
from app.storage.sources.files import FileStorage
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage, TreeStorage
from app.storage.sources.uploads import UploadStorage
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.sources.embed_chunks import EmbedChunks
from app.usecases.sources.index import IndexSources
from app.usecases.sources.manage import ManageSources
from app.usecases.sources.read_files import ReadFiles
from app.usecases.sources.store_files import StoreFiles
from app.usecases.sources.tree import BrowseFolder
from app.usecases.sources.turn_chunks import CutTurns
from app.usecases.sources.uploads import ManageFiles
from app.usecases.sources.watch import WatchSources
from app.usecases.turn_memory.blobs import StoreBlobs


def build_folders(settings: Settings) -> SourceFolders:
    """Build the adapter of folders."""
    return PosixSourceFolders(settings.source_roots)


@dataclass(frozen=True, slots=True)
class SourceUseCases:
    """The use-cases of one application on sources."""

    index: IndexSources
    cut_turns: CutTurns
    browse: BrowseFolder
    watch: WatchSources
    manage: ManageSources
    files: ManageFiles


def build_sources(parts: SharedParts, blobs: StoreBlobs) -> SourceUseCases:
    """Build the use-cases of sources. The parser's processes start with the first document."""
    files = FileStorage()
    index_jobs = IndexJobStorage(parts.uow)
    sources = SourceStorage(parts.uow)
    embed = EmbedChunks(parts.embedder)
    memories = MemoryStorage(parts.uow, parts.space.name)
    policies = parts.policies
    journal = parts.journal
    queue = parts.publisher
    policy = policies.defaults.sources
    job_policy = policies.defaults.jobs
    return SourceUseCases(
        browse=BrowseFolder(parts.uow, sources, TreeStorage(), parts.folders),
        watch=WatchSources(
            parts.uow,
            TenantStorage(parts.uow),
            sources,
            index_jobs,
            parts.folders,
            queue,
            policy,
        ),
        index=IndexSources(
            parts.uow,
            sources,
            files,
            index_jobs,
            JobStorage(parts.uow, job_policy),
            parts.folders,
            ReadFiles(parts.folders, blobs, parts.parser),
            StoreFiles(parts.uow, files, index_jobs, journal, embed, parts.clock),
            policy,
        ),
        cut_turns=CutTurns(parts.uow, memories, files, journal, parts.parser, embed, policy),
        manage=ManageSources(parts.uow, sources, index_jobs, journal, parts.folders, queue, policies),
        files=ManageFiles(parts.uow, sources, UploadStorage(), files, index_jobs, blobs, queue, policy, parts.clock),
    )
