//! Reads a prompt from the command line, standard input or a file.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};

use crate::failure::{Failure, USAGE};

/// A prompt from the command line, standard input or a file.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Prompt {
    /// Prompt; '-' reads standard input
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// Read the prompt from a file
    #[arg(long, short_alias = 'f', value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// Reads a prompt, without the last line end of standard input or a file.
pub fn read(prompt: &Prompt) -> Result<String> {
    match (prompt.text.as_deref(), prompt.file.as_deref()) {
        (Some("-"), _) => decode_utf8(read_standard_input()?, "standard input"),
        (Some(text), _) => Ok(text.to_string()),
        (None, Some(path)) => {
            let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            decode_utf8(bytes, &path.display().to_string())
        }
        (None, None) => Err(Failure::new(USAGE, "no prompt given").into()),
    }
}

/// Reads all of standard input.
pub fn read_standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    Ok(bytes)
}

/// Decodes UTF-8 and removes one trailing line end.
pub fn decode_utf8(bytes: Vec<u8>, source: &str) -> Result<String> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(USAGE, format!("{source} is not UTF-8: invalid byte at {at}"))
    })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::decode_utf8;

    #[test]
    fn utf8_trims_line_end_and_locates_bad_byte() {
        assert_eq!(decode_utf8(b"a\n\n".to_vec(), "f").unwrap(), "a\n");
        assert_eq!(decode_utf8(b"a\r\n".to_vec(), "f").unwrap(), "a");
        assert_eq!(decode_utf8(Vec::new(), "f").unwrap(), "");
        let error = decode_utf8(b"ab\xff".to_vec(), "f").unwrap_err().to_string();
        assert_eq!(error, "f is not UTF-8: invalid byte at 2");
    }
}
