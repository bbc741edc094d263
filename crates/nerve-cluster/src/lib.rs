//! The pure core of runs over many machines: leases, epochs, the journal and placement, as a state machine.
//!
//! [`ServerCore`] is the core of one server. It takes the time of its own clock and an [`Input`], and returns [`Effect`]s. An adapter
//! performs them against a replicated store. Nothing here does I/O, reads a clock or draws a random number.
//!
//! | word | meaning |
//! |---|---|
//! | machine | a computer with a state folder; [`MachineId`] is its identity, [`Instance`] one process of its server |
//! | run, step | a graph of steps, and one of them: a prompt for an agent, or a command |
//! | attempt | one execution of a step; a step whose machine was lost may have several |
//! | node, prompt, turn | an agent's terminal, the text that is typed into it, and the agent's work until it answers |
//! | offer | a record that lets one machine take an attempt |
//! | hint | an input that may be lost or repeated, and only leads to an earlier reading |
//! | fold | the function from a journal's records to the state of the run, equal on all machines |
//!
//! # The store
//! The store is a log with positions, [`Sequence`]s. It has keys with a time to live and one journal per run. Every write is a
//! compare-and-set on the last sequence of its key or journal. A response [`Unavailable`](Response::Unavailable) means that the write
//! may take effect, now or later. The core then reads, and repeats the write with the sequence that it read.
//!
//! # Safety is in the journal, liveness in leases
//! A paused machine can believe in an expired lease. So no lease protects an effect; the run's journal does:
//!
//! 1. Every reader folds the records in order into the same [`RunState`]. The fold rejects a record that does not fit: a second
//!    `Started` of an attempt, a result of a superseded attempt, a record of another epoch.
//! 2. A writer that knows the journal up to sequence `n` appends with "the last is `n`". If the store accepts, no record is between,
//!    and the fold accepts it too.
//! 3. **Fence**: a machine types a prompt only after the journal accepted its `Started`, and only once per process.
//! 4. A `Started` names the [`Instance`], one process: machine, boot counter and nonce. A restarted process finds its predecessor's
//!    `Started` and inspects the turn; it never types for it.
//!
//! Therefore an attempt is typed at most once, whatever leases and clocks do. Leases decide how soon the rest happens:
//!
//! | key | holder | expiry means |
//! |---|---|---|
//! | `machine.<uuid>` | one process per state folder; a copy of the folder waits | another process may take the identity |
//! | `run.<run>.owner` | the owner, which offers steps and judges lost ones | any machine takes over, in a higher epoch |
//! | `step.<run>.<step>.<attempt>` | the executor of a step | the owner regards the executor as lost |
//!
//! A holder renews after a third of the TTL. It begins nothing new once two thirds have passed since it sent the last renewal that
//! the store accepted, by its own clock. Clocks of different machines are never compared.
//!
//! # The adapter's contract
//! * It performs effects in the order in which they are returned, and returns one response per request, at the latest after a deadline.
//! * It never repeats [`Effect::TypePrompt`]: if typing fails, the turn has failed.
//! * One process uses a state folder at a time. Its boot counter is durable before the process starts its core.
//! * Its clock includes suspension, and no process continues from a snapshot of its memory: it would type a prompt again.
//! * The store never loses a record that it acknowledged. JetStream needs `sync_interval: always` or three replicas for that.
//!
//! # A step
//! ```text
//! owner     Offered ─ notification ┐        lease gone?  safe: Offered, next attempt
//! executor                         └ lease ─ prepare ─ Started ─ type ─ Finished     agent: InDoubt ─ wait, retry or fail
//! ```
//! The notification is only a hint; the offer is in the journal. A step that waits is resolved by its machine or by a person. A machine
//! that returns takes its leases again and appends `Resumed`. If the step has moved to another attempt or has failed, its result
//! becomes a `LateResult`, which no step uses by itself.
//!
//! # A run that a person cancels
//! After `Cancelled`, the fold rejects offers and starts, and each machine cancels its turn. An attempt in doubt fails without its
//! machine. After the end, `Continued` lets the steps that failed begin again with their next attempt; the earlier ones do not count.
//! A machine that was away cancels its turn when it returns, also if the run has continued.
//!
//! # An epoch
//! The sequence of the owner's lease when it took over. Its first record, `OwnerTookOver`, must have a higher epoch than the journal.
//! Afterwards only records of that epoch count. A former owner that did not notice writes void records.
#![warn(missing_docs)]

pub mod address;
mod executor;
mod id;
mod identity;
mod instance;
pub mod journal;
mod lease;
pub mod placement;
mod run_owner;
mod server_core;
pub mod store;
mod time;

pub use id::{AttemptId, RunId, Sequence, StepId};
pub use instance::{Instance, MachineId};
pub use journal::{Epoch, Record, RecordKind, RunState};
pub use server_core::{Effect, Input, RequestId, ServerCore, TurnReport};
pub use store::{Key, Request, Response};
pub use time::{BootTime, LeaseTimes};
