//! The name of a new node, derived from its program.

use anyhow::Result;
use nerve_api::ErrorKind;
use nerve_api::request::GetNode;
use nerve_client::{ClientError, NerveClient};

/// Characters of a program's name that its node's name has, so that there is room for a number.
const MAX_BASE: usize = 24;
/// Highest number that is appended to a node's name to make it unique.
const MAX_NAMES: usize = 1000;

/// Returns the program's name, with a number if another node of the default session has it.
///
/// # Errors
/// The server cannot be asked, or all names are taken.
pub async fn find_free_name(client: &NerveClient, program: &str) -> Result<String> {
    let base: String = program
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|char| char.to_ascii_lowercase())
        .take(MAX_BASE)
        .collect();
    let base = if base.is_empty() { "node".to_string() } else { base };
    for number in 1..=MAX_NAMES {
        let name = if number == 1 { base.clone() } else { format!("{base}{number}") };
        let request = GetNode { node_id: name.clone(), session_id: None };
        match client.node_info(&request).await {
            Ok(_) => {}
            Err(ClientError::Server(error)) if error.details.error_type == ErrorKind::NotFound => {
                return Ok(name);
            }
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("all names from '{base}' to '{base}{MAX_NAMES}' are taken")
}
