/// The process that reads the terminal's input, as reported by the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Foreground {
    /// Unknown.
    #[default]
    Unknown,
    /// The program itself, asleep.
    Idle,
    /// The program itself, running.
    Awake,
    /// Another process group.
    Other,
}
