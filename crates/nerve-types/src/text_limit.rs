//! Limits of texts that are kept with sessions and snapshots and are part of every list of them.

/// Maximum bytes of a description.
pub const MAX_DESCRIPTION: usize = 2048;
/// Maximum number of tags.
pub const MAX_TAGS: usize = 32;
/// Maximum bytes of a tag.
pub const MAX_TAG: usize = 64;
/// Maximum bytes of a label.
pub const MAX_LABEL: usize = 256;

/// A text or list that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} exceeds the limit: it has {found} {unit}, at most {max} are allowed")]
pub struct LimitError {
    subject: &'static str,
    unit: &'static str,
    found: usize,
    max: usize,
}

/// Checks a description.
///
/// # Errors
/// [`LimitError`]: it exceeds [`MAX_DESCRIPTION`].
pub fn check_description(text: &str) -> Result<(), LimitError> {
    check("description", "bytes", text.len(), MAX_DESCRIPTION)
}

/// Checks tags.
///
/// # Errors
/// [`LimitError`]: there are more than [`MAX_TAGS`], or one exceeds [`MAX_TAG`].
pub fn check_tags(tags: &[String]) -> Result<(), LimitError> {
    check("list of tags", "tags", tags.len(), MAX_TAGS)?;
    tags.iter().try_for_each(|tag| check("tag", "bytes", tag.len(), MAX_TAG))
}

/// Checks a label.
///
/// # Errors
/// [`LimitError`]: it exceeds [`MAX_LABEL`].
pub fn check_label(label: &str) -> Result<(), LimitError> {
    check("label", "bytes", label.len(), MAX_LABEL)
}

fn check(subject: &'static str, unit: &'static str, found: usize, max: usize) -> Result<(), LimitError> {
    if found > max { Err(LimitError { subject, unit, found, max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_up_to_the_limit_pass() {
        check_description(&"d".repeat(MAX_DESCRIPTION)).unwrap();
        check_tags(&vec!["t".repeat(MAX_TAG); MAX_TAGS]).unwrap();
        check_label(&"l".repeat(MAX_LABEL)).unwrap();
    }

    #[test]
    fn error_names_the_limit() {
        let description = check_description(&"d".repeat(MAX_DESCRIPTION + 1)).unwrap_err();
        let tags = check_tags(&vec![String::new(); MAX_TAGS + 1]).unwrap_err();
        let tag = check_tags(&["t".repeat(MAX_TAG + 1)]).unwrap_err();
        let label = check_label(&"l".repeat(MAX_LABEL + 1)).unwrap_err();
        for (error, subject, max) in [
            (description, "description", MAX_DESCRIPTION),
            (tags, "list of tags", MAX_TAGS),
            (tag, "tag", MAX_TAG),
            (label, "label", MAX_LABEL),
        ] {
            let text = error.to_string();
            assert!(text.starts_with(subject) && text.contains(&format!("at most {max}")), "{text}");
        }
    }
}
