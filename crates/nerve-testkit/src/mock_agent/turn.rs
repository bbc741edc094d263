//! One turn: the remaining steps, and the part of the answer that is not final.

use std::collections::VecDeque;
use std::time::Duration;

use super::composer::Draft;
use super::line::{Line, Style, display_width, printable, wrap};
use super::scenario::Step;

/// Bytes per batch of a flood.
const FLOOD_BATCH: usize = 64 << 10;
/// Progress updates per batch.
const PROGRESS_BATCH: u32 = 50;
const PROGRESS_PAUSE: Duration = Duration::from_millis(2);
pub(super) const INTERRUPTED: &str = "Interrupted · What should Claude do instead?";

/// Next action of the agent after a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Run the next step when it is due.
    Continue,
    /// Draw first.
    Draw,
    /// Draw, then rewrite the last pending row with these lines.
    Overwrite(Vec<Line>),
    /// Ask for permission to run this command.
    Ask { command: String },
    /// End the turn.
    Over,
    /// Exit, with the terminal restored or not.
    Exit { code: i32, politely: bool },
}

pub(super) struct Turn {
    pub(super) draft: Draft,
    /// Conversation lines that may still change.
    pub(super) pending: Vec<Line>,
    /// The spinner's text in brackets, if it is visible.
    pub(super) spinner: Option<&'static str>,
    /// Time of the next step.
    pub(super) next: Duration,
    /// Ignores Esc and ^C.
    pub(super) deaf: bool,
    steps: VecDeque<Step>,
    started: Duration,
    /// Part of the answer was printed.
    began: bool,
    /// The unfinished row of a word-by-word answer.
    row: Option<String>,
}

impl Turn {
    pub(super) fn new(draft: Draft, steps: VecDeque<Step>, cols: usize, now: Duration) -> Turn {
        let pending = echo(&draft.shown(), cols);
        Turn {
            draft,
            pending,
            spinner: Some(""),
            next: now,
            deaf: false,
            steps,
            started: now,
            began: false,
            row: None,
        }
    }

    /// Runs the next step. Final lines go to `settled`.
    pub(super) fn step(&mut self, now: Duration, cols: usize, settled: &mut Vec<Line>) -> Outcome {
        let Some(step) = self.steps.pop_front() else {
            self.begin(settled);
            return Outcome::Over;
        };
        if !matches!(step, Step::Wait(_) | Step::Spinner(_) | Step::Hang) {
            self.begin(settled);
        }
        match step {
            Step::Wait(time) => self.next = now + time,
            Step::Spinner(text) => self.spinner = Some(text),
            Step::Hang => {
                self.deaf = true;
                self.next = Duration::MAX;
            }
            Step::Say(text) => {
                self.spinner = None;
                settled.extend(block(&text, cols));
            }
            Step::Note(text) => settled.extend([Line::blank(), Line::grey(text)]),
            Step::Words { words, every } => self.word(words, every, now, cols, settled),
            Step::Tool { command, result } => {
                self.spinner = Some("");
                self.pending.clear();
                settled.extend(tool(&command, &result, cols));
            }
            Step::Permit { command, result } => return self.ask(command, result, cols),
            Step::Progress { done, total } => return self.progress(done, total, now, cols, settled),
            Step::Flood { bytes } => return self.flood(bytes, settled),
            Step::HugeLine { bytes } => settled.extend([Line::blank(), Line::raw(vec![b'x'; bytes], bytes)]),
            Step::BadUtf8 => settled.extend(bad_utf8()),
            Step::ApiError(message) => settled.extend(block(&format!("API Error: {message}"), cols)),
            Step::Done => settled.extend(end_line(now.saturating_sub(self.started))),
            Step::Crash(code) => return Outcome::Exit { code, politely: false },
            Step::Leave => return Outcome::Exit { code: 0, politely: true },
        }
        Outcome::Continue
    }

    /// Continues with the permitted command.
    pub(super) fn granted(&mut self, delay: Duration, now: Duration, cols: usize) {
        if let Some(Step::Tool { command, .. }) = self.steps.front() {
            self.pending = tool(command, "Running…", cols);
        }
        self.spinner = Some("");
        self.next = now + delay;
    }

    /// Interrupts the turn. Returns the prompt if nothing of the answer was printed.
    pub(super) fn interrupted(mut self, settled: &mut Vec<Line>) -> Option<Draft> {
        if !self.began {
            return Some(self.draft);
        }
        settled.append(&mut self.pending);
        settled.push(Line::grey(&format!("  ⎿ \u{a0}{INTERRUPTED}")));
        None
    }

    /// Continues without the rejected command.
    pub(super) fn rejected(mut self, settled: &mut Vec<Line>) {
        self.pending.pop();
        let _ = self.interrupted(settled);
    }

    /// Makes the echo of the prompt final, because the answer begins.
    fn begin(&mut self, settled: &mut Vec<Line>) {
        if !self.began {
            settled.append(&mut self.pending);
            self.began = true;
        }
    }

    fn word(
        &mut self,
        mut words: VecDeque<String>,
        every: Duration,
        now: Duration,
        cols: usize,
        settled: &mut Vec<Line>,
    ) {
        self.spinner = None;
        let Some(word) = words.pop_front() else { return };
        let row = match self.row.take() {
            None => {
                settled.push(Line::blank());
                word
            }
            Some(row) => match word.strip_prefix('\n') {
                None if display_width(&row) + 1 + display_width(&word) <= cols.saturating_sub(2) => {
                    row + " " + &word
                }
                stripped => {
                    settled.push(indented(&row));
                    stripped.map_or_else(|| word.clone(), String::from)
                }
            },
        };
        self.pending = vec![indented(&row)];
        self.row = Some(row);
        if words.is_empty() {
            settled.append(&mut self.pending);
            self.row = None;
        } else {
            self.steps.push_front(Step::Words { words, every });
        }
        self.next = now + every;
    }

    fn ask(&mut self, command: String, result: String, cols: usize) -> Outcome {
        self.pending = tool(&command, "Waiting…", cols);
        self.steps.push_front(Step::Tool { command: command.clone(), result });
        Outcome::Ask { command }
    }

    fn progress(
        &mut self,
        done: u32,
        total: u32,
        now: Duration,
        cols: usize,
        settled: &mut Vec<Line>,
    ) -> Outcome {
        if done >= total {
            settled.extend(tool("make", &bar(total, total, cols), cols));
            self.pending.clear();
            return Outcome::Continue;
        }
        let batch_end = (done + PROGRESS_BATCH).min(total);
        let updates: Vec<Line> = (done..=batch_end).map(|n| result_line(&bar(n, total, cols))).collect();
        self.pending = tool("make", &bar(done, total, cols), cols);
        self.spinner = Some("");
        self.steps.push_front(Step::Progress { done: batch_end, total });
        self.next = now + PROGRESS_PAUSE;
        Outcome::Overwrite(updates)
    }

    /// Replaces the last pending row after it was rewritten.
    pub(super) fn overwritten(&mut self, last: Line) {
        if let Some(row) = self.pending.last_mut() {
            *row = last;
        }
    }

    fn flood(&mut self, bytes: usize, settled: &mut Vec<Line>) -> Outcome {
        let batch = bytes.min(FLOOD_BATCH);
        let line = Line::plain("  flood flood flood flood flood flood flood flood flood flood");
        let per_line = line.bytes().len() + 2;
        settled.extend(std::iter::repeat_n(line, batch.div_ceil(per_line)));
        if bytes > batch {
            self.steps.push_front(Step::Flood { bytes: bytes - batch });
        }
        Outcome::Draw
    }
}

/// Formats a block of conversation text with its bullet.
fn block(text: &str, cols: usize) -> Vec<Line> {
    let rows = wrap(&printable(text), cols.saturating_sub(2));
    let first = Line::plain("● ").put(Style::Plain, &rows[0]);
    let rest = rows[1..].iter().map(|row| indented(row));
    [Line::blank(), first].into_iter().chain(rest).collect()
}

fn indented(row: &str) -> Line {
    if row.is_empty() { Line::blank() } else { Line::plain("  ").put(Style::Plain, row) }
}

fn echo(prompt: &str, cols: usize) -> Vec<Line> {
    let rows = wrap(prompt, cols.saturating_sub(2));
    let mark = |at| if at == 0 { "❯ " } else { "  " };
    let lines = rows.iter().enumerate().map(|(at, row)| Line::grey(mark(at)).put(Style::Plain, row));
    std::iter::once(Line::blank()).chain(lines).collect()
}

fn tool(command: &str, result: &str, cols: usize) -> Vec<Line> {
    let room = cols.saturating_sub("● Bash()".chars().count());
    let command: String = command.chars().take(room).collect();
    let head = Line::plain("● ").put(Style::Bold, "Bash").put(Style::Plain, &format!("({command})"));
    vec![Line::blank(), head, result_line(result)]
}

fn result_line(text: &str) -> Line {
    Line::grey("  ⎿ \u{a0}").put(Style::Plain, text)
}

fn bar(done: u32, total: u32, cols: usize) -> String {
    let cells = cols.saturating_sub(20).clamp(1, 40);
    let full = cells * done as usize / total.max(1) as usize;
    format!(
        "[{}{}] {:>3}%",
        "#".repeat(full),
        ".".repeat(cells - full),
        u64::from(done) * 100 / u64::from(total.max(1))
    )
}

fn bad_utf8() -> Vec<Line> {
    let lines: [&[u8]; 3] = [
        b"  lone \xff\xfe bytes",
        b"  cut \xe6\x97 short",
        b"  overlong \xc0\xaf and surrogate \xed\xa0\x80",
    ];
    lines.into_iter().map(|bytes| Line::raw(bytes.to_vec(), bytes.len())).collect()
}

fn end_line(took: Duration) -> Vec<Line> {
    vec![Line::blank(), Line::grey("✻ ").put(Style::Grey, &format!("Worked for {}s", took.as_secs()))]
}
