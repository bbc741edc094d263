//! A minimal terminal that supports only the sequences of the mock agent. Any other sequence fails the test, so that
//! the agent cannot start to use it unnoticed.

use std::collections::VecDeque;

pub(crate) struct Screen {
    cols: usize,
    rows: usize,
    grid: Vec<Vec<char>>,
    pub(crate) scrollback: VecDeque<String>,
    row: usize,
    col: usize,
    wraps: bool,
    pub(crate) titles: Vec<String>,
    pub(crate) modes: Vec<(String, bool)>,
    pending: Vec<u8>,
}

impl Screen {
    pub(crate) fn new(cols: usize, rows: usize) -> Screen {
        Screen {
            cols,
            rows,
            grid: vec![vec![' '; cols]; rows],
            scrollback: VecDeque::new(),
            row: 0,
            col: 0,
            wraps: true,
            titles: Vec::new(),
            modes: Vec::new(),
            pending: Vec::new(),
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        // An incomplete character or sequence is kept until its rest arrives.
        let pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..];
        while !rest.is_empty() {
            match self.process_one(rest) {
                Some(used) => rest = &rest[used..],
                None => break,
            }
        }
        self.pending = rest.to_vec();
    }

    pub(crate) fn cursor(&self) -> (usize, usize) {
        (self.row, self.col)
    }

    pub(crate) fn mode(&self, name: &str) -> Option<bool> {
        self.modes.iter().rev().find(|(mode, _)| mode == name).map(|(_, on)| *on)
    }

    /// Returns the visible rows without trailing blanks.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self.grid.iter().map(|row| line(row)).collect();
        rows.join("\n").trim_end_matches([' ', '\n']).to_owned()
    }

    /// Returns scrollback and screen.
    pub(crate) fn all(&self) -> String {
        let mut all: Vec<String> = self.scrollback.iter().cloned().collect();
        all.push(self.text());
        all.join("\n")
    }

    fn process_one(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes[0] {
            b'\r' => self.col = 0,
            b'\n' => self.line_feed(),
            0x1b => return self.escape(bytes),
            0x00..=0x1f => panic!("control character {:#x}", bytes[0]),
            _ => return self.character(bytes),
        }
        Some(1)
    }

    fn character(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = match bytes[0] {
            0..=0x7f => 1,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 0,
        };
        let slice = bytes.get(..length.max(1))?;
        let (c, used) = match std::str::from_utf8(slice).ok().and_then(|s| s.chars().next()) {
            Some(c) if length > 0 => (c, length),
            _ => ('\u{fffd}', 1),
        };
        if self.col == self.cols {
            if self.wraps {
                self.col = 0;
                self.line_feed();
            } else {
                self.col -= 1;
            }
        }
        self.grid[self.row][self.col] = c;
        self.col += 1;
        Some(used)
    }

    fn line_feed(&mut self) {
        if self.row + 1 < self.rows {
            self.row += 1;
        } else {
            let top = self.grid.remove(0);
            self.scrollback.push_back(line(&top));
            self.grid.push(vec![' '; self.cols]);
        }
    }

    fn escape(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes.get(1)? {
            b'[' => {
                let end = bytes[2..].iter().position(|b| (0x40..=0x7e).contains(b))? + 2;
                let parameters = String::from_utf8_lossy(&bytes[2..end]).into_owned();
                self.control(&parameters, bytes[end]);
                Some(end + 1)
            }
            b']' => {
                let end = bytes.iter().position(|&b| b == 7)?;
                let text = String::from_utf8_lossy(&bytes[2..end]);
                self.titles.push(text.strip_prefix("0;").expect("only titles").to_owned());
                Some(end + 1)
            }
            other => panic!("escape sequence {other:#x}"),
        }
    }

    fn control(&mut self, parameters: &str, end: u8) {
        let first = parameters.split(';').next().and_then(|p| p.parse().ok()).unwrap_or(1usize);
        match end {
            b'A' => self.row = self.row.saturating_sub(first),
            b'B' => self.row = (self.row + first).min(self.rows - 1),
            b'G' => self.col = (first - 1).min(self.cols - 1),
            b'H' => {
                let column = parameters.split(';').nth(1).and_then(|p| p.parse().ok()).unwrap_or(1usize);
                self.row = (first - 1).min(self.rows - 1);
                self.col = (column - 1).min(self.cols - 1);
            }
            b'J' if parameters == "2" => self.grid.iter_mut().for_each(|row| row.fill(' ')),
            b'J' if parameters.is_empty() => {
                self.grid[self.row][self.col.min(self.cols - 1)..].fill(' ');
                self.grid[self.row + 1..].iter_mut().for_each(|row| row.fill(' '));
            }
            b'K' if parameters == "2" => self.grid[self.row].fill(' '),
            b'm' => {}
            b'h' | b'l' => {
                if parameters == "?7" {
                    self.wraps = end == b'h';
                }
                self.modes.push((parameters.to_owned(), end == b'h'));
            }
            b'q' | b'u' | b'c' => {}
            other => panic!("control sequence {parameters}{}", char::from(other)),
        }
    }
}

fn line(row: &[char]) -> String {
    row.iter().collect::<String>().trim_end_matches(' ').to_owned()
}
