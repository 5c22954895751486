//! A conversation as text: one JSON object per line, `{"role": …, "content": …}`. The first line may name the model
//! instead, `{"model": …}`.

use serde::{Deserialize, Serialize};

use super::{Message, Role};
use crate::error::{Error, Result};

mod claim;
mod journal;

pub(crate) use claim::Claim;
pub(crate) use journal::{Journal, read};

/// What a file of a conversation holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// The model that it was held with, where the file says so.
    pub(crate) model: Option<String>,
    pub(crate) messages: Vec<Message>,
}

/// The first line of a conversation that is kept while it is held.
#[derive(Serialize, Deserialize)]
struct Head {
    model: String,
}

/// A conversation as JSON lines.
pub(crate) fn to_jsonl(messages: &[Message]) -> String {
    messages.iter().map(|m| serde_json::json!(m).to_string() + "\n").collect()
}

/// JSON lines as a conversation: a system message first or not at all, then user and assistant in turn. The last
/// message may have no answer yet.
pub(crate) fn from_jsonl(text: &str) -> Result<Transcript> {
    let mut transcript = Transcript::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = number + 1;
        let message: Message = match (serde_json::from_str(line), serde_json::from_str::<Head>(line)) {
            (Ok(message), _) => message,
            (Err(_), Ok(head)) if number == 0 => {
                transcript.model = Some(head.model);
                continue;
            }
            (Err(_), _) => {
                return Err(Error::failed(format!("line {at} is not a message such as {EXAMPLE}")));
            }
        };
        let previous = transcript.messages.last().map(|m| m.role);
        let expected = match message.role {
            Role::System => previous.is_none(),
            Role::User => previous != Some(Role::User),
            Role::Assistant => previous == Some(Role::User),
        };
        if !expected {
            return Err(Error::failed(format!("line {at}: user and assistant do not take turns")));
        }
        transcript.messages.push(message);
    }
    Ok(transcript)
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
        assert_eq!(from_jsonl(&text).unwrap(), Transcript { model: None, messages });
        assert_eq!(from_jsonl("\n").unwrap(), Transcript::default());
    }

    #[test]
    fn the_first_line_may_name_the_model_and_the_last_be_unanswered() {
        let text = "{\"model\":\"demo\"}\n{\"role\":\"user\",\"content\":\"Hi\"}\n";
        let messages = vec![Message::new(Role::User, "Hi")];
        assert_eq!(from_jsonl(text).unwrap(), Transcript { model: Some("demo".to_owned()), messages });
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
            (format!("{user}\n{{\"model\":\"a\"}}"), "line 2 is not a message"),
            (assistant.to_owned(), "line 1: user and assistant"),
            (format!("{user}\n{assistant}\n{system}"), "line 3: user and assistant"),
        ] {
            let error = from_jsonl(&text).unwrap_err();
            assert!(error.message.starts_with(start), "{}", error.message);
        }
    }
}
