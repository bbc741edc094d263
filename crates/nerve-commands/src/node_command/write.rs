//! `node write`: writes data and keys to a terminal.

use anyhow::Result;
use nerve_api::request::WriteData;
use nerve_vt::keys::{Key, unescape};
use nerve_vt::screen::Modes;

use super::CommandContext;
use super::args::WriteArgs;
use crate::failure::{Failure, USAGE};
use crate::out;
use crate::prompt::read_standard_input;

/// Writes DATA, then the keys.
pub(super) async fn run(context: &CommandContext, args: WriteArgs) -> Result<()> {
    let data = bytes(&args)?;
    let data = String::from_utf8(data).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(USAGE, format!("the data is not UTF-8: invalid byte at {at}"))
    })?;
    if let Some(escape) = args.data.as_deref().filter(|_| !args.escape).and_then(literal_escape) {
        out::hint(format_args!(
            "{escape} is written as typed, as characters; --escape interprets it, and --key presses keys such as esc"
        ));
    }
    let params = WriteData { node_id: args.node, session_id: context.session.clone(), data };
    context.request_silently(&params).await
}

/// Returns the first escape in data that is written without interpreting escapes.
fn literal_escape(data: &str) -> Option<&str> {
    let at = data.find('\\')?;
    let rest = &data[at..];
    let is_hex = |digits: &str| digits.chars().all(|c| c.is_ascii_hexdigit());
    match rest.as_bytes().get(1)? {
        b'x' => rest.get(..4).filter(|escape| is_hex(&escape[2..])),
        b'e' | b'r' | b'n' | b't' => rest.get(..2),
        b'0' => rest.get(..4).filter(|escape| is_hex(&escape[1..])),
        _ => literal_escape(rest.get(2..)?),
    }
}

fn bytes(args: &WriteArgs) -> Result<Vec<u8>> {
    let data = match args.data.as_deref() {
        Some("-") => read_standard_input()?,
        Some(data) => data.as_bytes().to_vec(),
        None => Vec::new(),
    };
    let mut bytes = data;
    if args.escape {
        let text = std::str::from_utf8(&bytes).map_err(|_| Failure::new(USAGE, "the data is not UTF-8"))?;
        bytes = unescape(text).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    }
    for name in &args.keys {
        let key: Key = name.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
        // The terminal's modes are unknown here. Programs accept the default form in all modes.
        bytes.extend(key.bytes(Modes::default()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(data: Option<&str>, escape: bool, keys: &[&str]) -> Result<Vec<u8>> {
        let keys = keys.iter().map(ToString::to_string).collect();
        bytes(&WriteArgs { node: "n".to_string(), data: data.map(str::to_string), escape, keys })
    }

    #[test]
    fn escapes_that_are_typed_as_characters_are_found() {
        for (data, escape) in [(r"\x1b", r"\x1b"), (r"ls\r", r"\r"), (r"\033[A", r"\033"), (r"a\qb\e", r"\e")]
        {
            assert_eq!(literal_escape(data), Some(escape), "{data}");
        }
        for data in ["ls", r"\x1", r"\", r"a\q", "\u{1b}", r"\xzz"] {
            assert_eq!(literal_escape(data), None, "{data}");
        }
    }

    #[test]
    fn unescapes_on_request_and_appends_keys() {
        assert_eq!(written(Some(r"ls\r"), false, &[]).unwrap(), br"ls\r");
        assert_eq!(written(Some(r"ls\r"), true, &[]).unwrap(), b"ls\r");
        assert_eq!(written(Some("ä"), false, &["enter", "C-c"]).unwrap(), "ä\r\x03".as_bytes());
        assert_eq!(written(None, false, &["up"]).unwrap(), b"\x1b[A");
        assert!(written(None, false, &["hyperspace"]).is_err());
        assert!(written(Some(r"\q"), true, &[]).is_err());
    }
}
