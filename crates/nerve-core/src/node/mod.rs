//! Units of work. A terminal node drives a program on a terminal, turn by turn; a bash node runs one command at a time.

pub mod bash;
pub mod terminal;

mod actor;
pub mod hooks;
mod journal;
mod queue;
mod response;
mod stream;
mod transcript;

use crate::command::{NodeInfo, StateName};

/// A node of any kind.
#[derive(Debug, Clone)]
pub enum Node {
    /// A program on a terminal.
    Terminal(terminal::TerminalNode),
    /// One-shot commands.
    Bash(bash::BashNode),
}

impl Node {
    /// What is known of it.
    pub fn info(&self) -> NodeInfo {
        match self {
            Node::Terminal(node) => node.info(),
            Node::Bash(node) => node.info(),
        }
    }

    /// Where it is in its life.
    pub fn state(&self) -> StateName {
        self.info().state
    }

    /// Are these handles of one node, not of two that had the same name?
    pub fn is_same(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Terminal(node), Node::Terminal(other)) => node.is_same(other),
            (Node::Bash(node), Node::Bash(other)) => node.is_same(other),
            (Node::Terminal(_), Node::Bash(_)) | (Node::Bash(_), Node::Terminal(_)) => false,
        }
    }

    /// Leaves its program running without us; `false` if it cannot.
    pub async fn release(&self) -> bool {
        match self {
            Node::Terminal(node) => node.release().await,
            Node::Bash(_) => false,
        }
    }

    /// Stops it; returns when it is gone.
    pub async fn stop(&self, reason: &str) {
        match self {
            Node::Terminal(node) => node.stop(reason).await,
            Node::Bash(node) => node.stop(reason).await,
        }
    }
}
