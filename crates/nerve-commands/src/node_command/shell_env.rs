//! The environment that a new node gets from the shell that runs this command.

use std::collections::BTreeMap;

use nerve_client::NerveClient;
use nerve_host::environment;

/// Returns the variables of this process, for a server on this machine. Those of another machine keep their own.
pub fn shell_env(client: &NerveClient) -> Option<BTreeMap<String, String>> {
    client.is_local().then(environment::read_variables)
}
