//! Readers of agents' session files that report each activity once, as it is written.

pub mod claude;
