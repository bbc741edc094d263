//! Reads a terminal and discards the bytes: the lower bound for everything that reads one.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use nerve_host::backend::Program;
use nerve_host::backend::pty::{Pty, READ_LIMIT};
use nerve_types::Size;

/// Runs a program to its end and counts what it wrote.
pub(crate) async fn read_all(argv: &[String]) -> Result<u64> {
    let program = Program { argv: argv.to_vec(), cwd: None, env: BTreeMap::new(), env_remove: Vec::new() };
    let mut pty = Pty::spawn(&program, Size::default())?;
    let (mut buffer, mut bytes) = (Vec::with_capacity(READ_LIMIT), 0);
    while pty.output.read(&mut buffer).await? > 0 {
        bytes += buffer.len() as u64;
        buffer.clear();
    }
    pty.child.wait().await;
    ensure!(bytes > 0, "nothing was read");
    Ok(bytes)
}
