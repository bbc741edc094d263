//! What was said before, as a text in front of a prompt. Pure.

use super::message::{Message, Role};

/// Bytes of earlier messages in one prompt; of more, the newest that fit.
pub const MAX_CONTEXT: usize = 4 << 20;

/// A prompt with what was said before it, and how many of the oldest messages were left out because they are too much. Nothing was said
/// before: the prompt as it is.
///
/// ```
/// use nerve_core::conversation::{Message, Role, prompt_with_context};
/// let said = [Message::new(Role::User, "Hello", 1), Message::new(Role::Assistant, "Hi there!", 2)];
/// let (prompt, left_out) = prompt_with_context(said.iter(), "My name is Alice");
/// assert_eq!(
///     prompt,
///     "\n# Previous conversation context:\nUser: Hello\nAssistant: Hi there!\n\n---\n\nMy name is Alice"
/// );
/// assert_eq!(left_out, 0);
/// ```
pub fn prompt_with_context<'a>(
    said: impl DoubleEndedIterator<Item = &'a Message>,
    prompt: &str,
) -> (String, usize) {
    let (mut room, mut newest, mut left_out) = (MAX_CONTEXT, Vec::new(), 0);
    for message in said.rev() {
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
    // The empty line before the heading is the seed's; it also keeps '#' from being the first character, which some agents take as a
    // command of theirs.
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
    fn nothing_said_is_the_prompt_as_it_is() {
        assert_eq!(prompt_with_context([].iter(), "a\nb"), ("a\nb".to_string(), 0));
    }

    #[test]
    fn of_too_much_the_newest_are_given() {
        let long = "x".repeat(MAX_CONTEXT / 2);
        let said: Vec<Message> =
            (0..4).map(|at| Message::new(Role::User, format!("{at}{long}"), at)).collect();
        let (prompt, left_out) = prompt_with_context(said.iter(), "p");
        assert_eq!(left_out, 3);
        assert!(prompt.contains("User: 3x") && !prompt.contains("2x"));
        let one = [Message::new(Role::User, "y".repeat(MAX_CONTEXT + 1), 1)];
        assert_eq!(prompt_with_context(one.iter(), "p"), ("p".to_string(), 1));
    }
}
