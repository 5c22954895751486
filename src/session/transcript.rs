//! A conversation as text: one JSON object per line, `{"role": …, "content": …}`.

use super::{Message, Role};
use crate::error::{Error, Result};

/// A conversation as JSON lines.
pub(crate) fn to_jsonl(messages: &[Message]) -> String {
    messages.iter().map(|m| serde_json::json!(m).to_string() + "\n").collect()
}

/// JSON lines as a conversation: a system message first or not at all, then user and assistant in turn,
/// the assistant last.
pub(crate) fn from_jsonl(text: &str) -> Result<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = number + 1;
        let message: Message = serde_json::from_str(line)
            .map_err(|_| Error::failed(format!("line {at} is not a message such as {EXAMPLE}")))?;
        let previous = messages.last().map(|m| m.role);
        let expected = match message.role {
            Role::System => previous.is_none(),
            Role::User => previous != Some(Role::User),
            Role::Assistant => previous == Some(Role::User),
        };
        if !expected {
            return Err(Error::failed(format!("line {at}: user and assistant do not take turns")));
        }
        messages.push(message);
    }
    if messages.last().is_some_and(|m| m.role == Role::User) {
        return Err(Error::failed("the last message has no answer")
            .hint("leave it out of the file, and say it in `chat`"));
    }
    Ok(messages)
}

const EXAMPLE: &str = r#"{"role":"user","content":"Hello"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let messages = vec![
            Message::new(Role::System, "Be\nbrief. \"é\""),
            Message::new(Role::User, "Hi"),
            Message::new(Role::Assistant, ""),
        ];
        let text = to_jsonl(&messages);
        assert_eq!(text.lines().nth(1), Some(r#"{"role":"user","content":"Hi"}"#));
        assert_eq!(from_jsonl(&text).unwrap(), messages);
        assert_eq!(from_jsonl("\n").unwrap(), []);
    }

    #[test]
    fn what_is_no_conversation_is_refused_by_line() {
        let user = r#"{"role":"user","content":"a"}"#;
        let assistant = r#"{"role":"assistant","content":"a"}"#;
        let system = r#"{"role":"system","content":"a"}"#;
        for (text, start) in [
            ("hello".to_owned(), "line 1 is not a message"),
            (format!("{user}\n{{}}"), "line 2 is not a message"),
            (format!("{user}\n\n{user}"), "line 3: user and assistant"),
            (user.to_owned(), "the last message has no answer"),
            (assistant.to_owned(), "line 1: user and assistant"),
            (format!("{user}\n{assistant}\n{system}"), "line 3: user and assistant"),
        ] {
            let error = from_jsonl(&text).unwrap_err();
            assert!(error.message.starts_with(start), "{}", error.message);
        }
    }
}
