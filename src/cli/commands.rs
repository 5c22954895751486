//! The words that begin with `/`.

/// What can be done in a conversation besides talking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Bye,
    Clear,
    Set,
    Show,
    System,
    Regen,
    Undo,
    Edit,
    Save,
    Load,
    Read,
    Context,
    Stats,
}

/// Name, arguments, what it does.
const TABLE: [(Command, &str, &str, &str); 14] = [
    (Command::Help, "/help", "", "list these commands"),
    (Command::Bye, "/bye", "", "leave, as Ctrl-D does"),
    (Command::Clear, "/clear", "", "forget the conversation, keep the system prompt"),
    (Command::Set, "/set", "NAME VALUE", "change one of the settings that `/show` lists, or `stats`"),
    (Command::Show, "/show", "", "the model, the settings and their origin, the window"),
    (Command::System, "/system", "TEXT", "set the system prompt; without a text, take it away"),
    (Command::Regen, "/regen", "", "answer the last message once more"),
    (Command::Undo, "/undo", "", "take back the last message and its answer"),
    (Command::Edit, "/edit", "[TEXT]", "change the last message and answer it again"),
    (Command::Save, "/save", "FILE", "write the conversation as JSON lines"),
    (Command::Load, "/load", "FILE", "go on with a conversation that was saved"),
    (Command::Read, "/read", "FILE", "put a file in front of the next message; no name: forget it"),
    (Command::Context, "/context", "", "what takes how much of the window"),
    (Command::Stats, "/stats", "", "the statistics of the last answer"),
];

/// Names people know from elsewhere.
const ALIASES: [(&str, &str); 4] =
    [("/?", "/help"), ("/exit", "/bye"), ("/quit", "/bye"), ("/regenerate", "/regen")];

/// The command in a line and what follows it; `Err` holds the unknown word. `None` is a message.
pub(crate) fn parse(line: &str) -> Option<Result<(Command, &str), &str>> {
    let line = line.trim();
    // A block of lines is a message, whatever it begins with.
    if !line.starts_with('/') || line.contains('\n') {
        return None;
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // A path at the start of a message is no command.
    if word[1..].contains('/') {
        return None;
    }
    let name = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |(_, name)| name);
    let found = TABLE.iter().find(|row| row.1 == name);
    Some(found.map_or(Err(word), |row| Ok((row.0, rest.trim()))))
}

/// All names, for Tab.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.1)
}

/// Does this command take a file?
pub(crate) fn takes_file(name: &str) -> bool {
    TABLE.iter().any(|row| row.1 == name && row.2 == "FILE")
}

/// The text of `/help`.
pub(crate) fn help() -> String {
    let rows =
        TABLE.iter().map(|(_, name, args, what)| format!("  {:<18} {what}\n", format!("{name} {args}")));
    rows.collect::<String>()
        + "  \\ at the end of a line goes on with the next; \"\"\" begins and ends a block of lines\n"
        + "  Ctrl-C stops an answer and keeps what there is of it"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash_and_paths_are_no_commands() {
        for (line, expected) in [
            ("hello", None),
            ("", None),
            ("/usr/bin is a folder", None),
            ("/help is a command\nand this is not", None),
            ("/help", Some(Ok((Command::Help, "")))),
            ("  /set temp  0.5 ", Some(Ok((Command::Set, "temp  0.5")))),
            ("/?", Some(Ok((Command::Help, "")))),
            ("/quit", Some(Ok((Command::Bye, "")))),
            ("/hepl me", Some(Err("/hepl"))),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn help_names_every_command() {
        let help = help();
        for name in names() {
            assert!(help.contains(&format!("  {name} ")), "{name}");
        }
        assert!(takes_file("/save") && !takes_file("/set"));
    }
}
