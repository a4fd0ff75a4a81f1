"""PDF and DOCX documents that tests make."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO

import docx
import pypdf
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def make_pdf(pages: Sequence[str], password: str = "") -> bytes:
    """Return a PDF with a line of text on each page; with a password, encrypted by AES."""
    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
    for text in pages:
        page = writer.add_blank_page(600, 800)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = stream
        page[NameObject("/Resources")] = fonts
    if password:
        writer.encrypt(password, algorithm="AES-256")
    return write_pdf(writer)


def write_pdf(writer: pypdf.PdfWriter) -> bytes:
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def make_bomb_pdf(size: int) -> bytes:
    """Return a PDF whose only page has a compressed stream of `size` spaces."""
    packer = zlib.compressobj(9)
    packed = b"".join([*(packer.compress(b" " * (1 << 20)) for _ in range(size >> 20)), packer.flush()])
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R"
        b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Courier>>>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed),
    ]
    out = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(out)
    return out + b"xref\n0 5\n0000000000 65535 f \n" + table + end


def make_docx(blocks: Sequence[tuple[int, str]], rows: Sequence[Sequence[str]] = ()) -> bytes:
    """Return a DOCX file of headings (level, text), paragraphs (level 0) and a table."""
    document = docx.Document()
    for level, text in blocks:
        if level:
            document.add_heading(text, level)
        else:
            document.add_paragraph(text)
    if rows:
        table = document.add_table(len(rows), len(rows[0]))
        for row, values in zip(table.rows, rows, strict=True):
            for cell, value in zip(row.cells, values, strict=True):
                cell.text = value
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def change_parts(content: bytes, parts: Mapping[str, bytes]) -> bytes:
    """Return a zip file with some parts replaced or added, compressed."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, parts[name] if name in parts else old.read(name))
        for name in parts.keys() - set(old.namelist()):
            new.writestr(name, parts[name])
    return out.getvalue()
