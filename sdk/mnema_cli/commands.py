"""The commands that need nothing but a server's address and a key."""

from mnema_cli.lazy import LazyCommand

COMMANDS = (
    LazyCommand("remember", "mnema_cli.memories:remember_memory", "Write a memory."),
    LazyCommand("query", "mnema_cli.memories:query_memory", "Query the memory as an agent."),
    LazyCommand("search", "mnema_cli.memories:search_memories", "Search turns, memories and chunks across threads."),
    LazyCommand("list", "mnema_cli.browse:list_memories", "List memories, newest first."),
    LazyCommand("get", "mnema_cli.browse:get_memory", "Show a memory."),
    LazyCommand("edit", "mnema_cli.browse:edit_memory", "Change a memory."),
    LazyCommand(
        "correct",
        "mnema_cli.corrections:correct_memory",
        "Replace a memory by the right text.",
    ),
    LazyCommand("forget", "mnema_cli.corrections:forget_memory", "Show a memory, ask, and bin or delete it."),
    LazyCommand("retract", "mnema_cli.corrections:retract_memory", "Mark a memory as wrong."),
    LazyCommand("supersede", "mnema_cli.corrections:supersede_memory", "Mark a memory as true until now."),
    LazyCommand("restore", "mnema_cli.corrections:restore_memory", "Make a memory active again, whatever it is now."),
    LazyCommand("history", "mnema_cli.memories:show_history", "Show the history of a memory, newest first."),
    LazyCommand("changes", "mnema_cli.changes:show_changes", "Show the changes of memories, oldest first."),
    LazyCommand("why", "mnema_cli.why:explain_turn", "Show what became of a turn, and why nothing was remembered."),
    LazyCommand("users", "mnema_cli.browse:list_users", "List users with what is kept of each."),
    LazyCommand("threads", "mnema_cli.browse:list_threads", "List threads with what is kept of each."),
    LazyCommand("categories", "mnema_cli.browse:list_categories", "List categories with what is kept in each."),
    LazyCommand(
        "receipts",
        "mnema_cli.browse:list_receipts",
        "List receipts of answers, newest first: who was told how much, and when.",
    ),
    LazyCommand("webhook", "mnema_cli.webhooks:webhook_app", "Receivers of changes, and what was sent to them."),
    LazyCommand("facts", "mnema_cli.facts:facts_app", "Ranked lists and single values of a user."),
    LazyCommand(
        "import",
        "mnema_cli.imports.command:import_file",
        "Import chat turns, the export of a user, or memories of another product.",
    ),
    LazyCommand(
        "mirror", "mnema_cli.mirror.command:mirror_memories", "Mirror a user's memories as Markdown files, both ways."
    ),
    LazyCommand(
        "export", "mnema_cli.people:export_user", "Write all data of a user to a file, one JSON record a line."
    ),
    LazyCommand(
        "export-skills",
        "mnema_cli.skills:export_skills",
        "Write each procedure of a user as a skill, `mnema-…/SKILL.md`; remove the skills of procedures that ended.",
    ),
    LazyCommand(
        "hook",
        "mnema_cli.hook:run_hook",
        "Serve a hook of a coding agent: recall at the first prompt of a goal, store the turns when it stops.",
    ),
    LazyCommand("erase", "mnema_cli.people:erase_user", "Erase a user for good and print the receipt."),
)
