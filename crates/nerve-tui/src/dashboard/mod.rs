//! A dashboard of nodes, as `nerve top` shows it. [`Dashboard`] is pure: it receives nodes, input and the time, and returns effects and
//! cells. [`DashboardSession`] runs it in the user's terminal.

pub mod age;
mod draw;
mod effect;
mod input;
mod panel;
mod row;
mod session;
mod state;

pub use effect::Effect;
pub use row::{NodeKey, NodeRow};
pub use session::{DashboardEvent, DashboardSession};
pub use state::Dashboard;
