//! Puts earlier messages in front of a prompt.

use nerve_api::value::Role;

use super::message::Message;

/// Maximum size of earlier messages in one prompt, in bytes; the newest that fit are used.
pub(crate) const MAX_CONTEXT: usize = 4 << 20;

/// Returns the prompt with earlier messages in front of it, and how many of the oldest messages did not fit. Without earlier
/// messages the prompt is unchanged.
///
/// ```
/// use nerve_engine::conversation::{Message, Role, prompt_with_context};
/// let messages = [Message::new(Role::User, "Hello", 1), Message::new(Role::Assistant, "Hi there!", 2)];
/// let (prompt, left_out) = prompt_with_context(messages.iter(), "My name is Alice");
/// assert_eq!(
///     prompt,
///     "\n# Previous conversation context:\nUser: Hello\nAssistant: Hi there!\n\n---\n\nMy name is Alice"
/// );
/// assert_eq!(left_out, 0);
/// ```
pub fn prompt_with_context<'a>(
    messages: impl DoubleEndedIterator<Item = &'a Message>,
    prompt: &str,
) -> (String, usize) {
    let (mut room, mut newest, mut left_out) = (MAX_CONTEXT, Vec::new(), 0);
    for message in messages.rev() {
        match room.checked_sub(message.content.len()).filter(|_| left_out == 0) {
            Some(rest) => {
                room = rest;
                newest.push(message);
            }
            None => left_out += 1,
        }
    }
    if newest.is_empty() {
        return (prompt.to_string(), left_out);
    }
    // The empty first line keeps '#' from being the first character, which some agents treat as a command.
    let mut text = String::with_capacity(MAX_CONTEXT - room + prompt.len() + 16 * newest.len() + 64);
    text.push_str("\n# Previous conversation context:\n");
    for message in newest.into_iter().rev() {
        text.push_str(match message.role {
            Role::User => "User: ",
            Role::Assistant => "Assistant: ",
        });
        text.push_str(&message.content);
        text.push('\n');
    }
    text.push_str("\n---\n\n");
    text.push_str(prompt);
    (text, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_is_unchanged_without_messages() {
        assert_eq!(prompt_with_context([].iter(), "a\nb"), ("a\nb".to_string(), 0));
    }

    #[test]
    fn newest_messages_that_fit_are_used() {
        let long = "x".repeat(MAX_CONTEXT / 2);
        let messages: Vec<Message> =
            (0..4).map(|at| Message::new(Role::User, format!("{at}{long}"), at)).collect();
        let (prompt, left_out) = prompt_with_context(messages.iter(), "p");
        assert_eq!(left_out, 3);
        assert!(prompt.contains("User: 3x") && !prompt.contains("2x"));
        let one = [Message::new(Role::User, "y".repeat(MAX_CONTEXT + 1), 1)];
        assert_eq!(prompt_with_context(one.iter(), "p"), ("p".to_string(), 1));
    }
}
