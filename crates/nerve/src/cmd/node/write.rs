//! `node write`: writes data and keys to a terminal.

use anyhow::Result;
use nerve_api::request::WriteData;
use nerve_vt::keys::{Key, unescape};
use nerve_vt::screen::Modes;

use super::Target;
use crate::cli::node::WriteArgs;
use crate::cmd::prompt::standard_input_as_is;
use crate::exit::{Failure, USAGE};

/// Writes DATA, then the keys.
pub(super) async fn run(target: &Target, args: WriteArgs) -> Result<()> {
    let data = bytes(&args)?;
    let data = String::from_utf8(data).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(USAGE, format!("the data is not UTF-8: invalid byte at {at}"))
    })?;
    let params = WriteData { node_id: args.node, session_id: target.session.clone(), data };
    target.request_silently(&params).await
}

fn bytes(args: &WriteArgs) -> Result<Vec<u8>> {
    let given = match args.data.as_deref() {
        Some("-") => standard_input_as_is()?,
        Some(data) => data.as_bytes().to_vec(),
        None => Vec::new(),
    };
    let mut bytes = given;
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
    fn unescapes_on_request_and_appends_keys() {
        assert_eq!(written(Some(r"ls\r"), false, &[]).unwrap(), br"ls\r");
        assert_eq!(written(Some(r"ls\r"), true, &[]).unwrap(), b"ls\r");
        assert_eq!(written(Some("ä"), false, &["enter", "C-c"]).unwrap(), "ä\r\x03".as_bytes());
        assert_eq!(written(None, false, &["up"]).unwrap(), b"\x1b[A");
        assert!(written(None, false, &["hyperspace"]).is_err());
        assert!(written(Some(r"\q"), true, &[]).is_err());
    }
}
