//! A home with the recordings and histories of months of work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nerve_agent::parse::{Section, SectionKind};
use nerve_record::history::{HistoryWriter, Operation, ResponseData, SendEntry};
use nerve_record::meta::Meta;
use nerve_record::store::Store;
use nerve_testkit::Hermetic;
use nerve_types::{ExitStatus, Size, TsNs};

use crate::corpus;
use crate::synthetic;
use crate::words::{OutputTemplate, Vocabulary};
use nerve_testkit::Random;

pub(crate) const NODES: usize = 50;
const RECORDINGS_OF_NODE: usize = 20;
const TURNS_OF_RECORDING: usize = 100;
pub(crate) const RECORDINGS: usize = NODES * RECORDINGS_OF_NODE;
pub(crate) const TURNS: usize = RECORDINGS * TURNS_OF_RECORDING;
pub(crate) const DAYS: u64 = 90;
/// Number of words that only one turn has.
pub(crate) const RARE_WORDS: usize = 10;
/// One turn in so many has an error code, `E0` and three digits.
const ERROR_CODE_INTERVAL: u64 = 50;
/// Bytes per record of output.
const PIECE: usize = 2048;
const THREADS: usize = 2;

/// The home, and the size of its recordings.
pub(crate) struct Archive {
    pub(crate) home: Hermetic,
    pub(crate) output_bytes: u64,
    /// Bytes of the recordings' files.
    pub(crate) file_bytes: u64,
}

/// Returns a word that only one turn has.
pub(crate) fn rare_word(number: usize) -> String {
    format!("quokka{number}")
}

impl Archive {
    /// Creates the home, with this much recorded output in all.
    pub(crate) fn create(output_bytes: u64) -> Result<Archive> {
        let generator = Generator::new(output_bytes)?;
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let work = || -> Result<()> {
                loop {
                    let node = next.fetch_add(1, Ordering::Relaxed);
                    if node >= NODES {
                        return Ok(());
                    }
                    eprintln!("daily: writing recordings, node {} of {NODES}", node + 1);
                    generator.write_node(node)?;
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a writer panicked"))
        })?;
        let recordings = Store::new(generator.home.nerve_home().join("recordings")).all();
        ensure!(recordings.len() == RECORDINGS, "{} recordings", recordings.len());
        let sizes = recordings.iter().map(|path| Ok(path.metadata()?.len()));
        let file_bytes = sizes.sum::<Result<u64>>()?;
        Ok(Archive { home: generator.home, output_bytes, file_bytes })
    }
}

struct Generator {
    home: Hermetic,
    vocabulary: Vocabulary,
    templates: Vec<OutputTemplate>,
    begin: TsNs,
    /// Time between two turns of a node.
    interval: Duration,
    bytes_of_recording: u64,
}

impl Generator {
    fn new(output_bytes: u64) -> Result<Generator> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let span = Duration::from_secs(DAYS * 24 * 3600);
        let turns = u32::try_from(RECORDINGS_OF_NODE * TURNS_OF_RECORDING)?;
        Ok(Generator {
            home: Hermetic::new()?,
            vocabulary: Vocabulary::new(),
            templates: corpus::sessions()?.into_iter().map(OutputTemplate::new).collect(),
            begin: TsNs(u64::try_from((now - span).as_nanos())?),
            interval: span / turns,
            bytes_of_recording: output_bytes / RECORDINGS as u64,
        })
    }

    fn write_node(&self, node: usize) -> Result<()> {
        let name = format!("node-{node}");
        let mut history = HistoryWriter::create(&self.home.nerve_home().join("history"), "default", &name)?;
        for recording in 0..RECORDINGS_OF_NODE {
            let number = node * RECORDINGS_OF_NODE + recording;
            let length = self.interval * TURNS_OF_RECORDING as u32;
            let start = self.begin + length * recording as u32;
            self.write_recording(&name, number, start, length)?;
            for turn in 0..TURNS_OF_RECORDING {
                let at = start + self.interval * turn as u32 + self.interval / 4;
                self.write_turn(&mut history, number * TURNS_OF_RECORDING + turn, at);
            }
        }
        ensure!(history.lost() == 0, "entries were lost");
        Ok(())
    }

    fn write_recording(&self, node: &str, number: usize, start: TsNs, length: Duration) -> Result<()> {
        let id = format!("{number:08}");
        let path = Store::new(self.home.nerve_home().join("recordings")).prepare(&id, start)?;
        let (total, size) = (self.bytes_of_recording, Size::default());
        let template = &self.templates[number % self.templates.len()];
        let (mut left, mut pass) = (total, 0);
        let sessions = std::iter::from_fn(|| {
            (left > 0).then(|| {
                pass += 1;
                let mut output = template.with_words(&self.vocabulary, (number as u64) << 32 | pass);
                output.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                left -= output.len() as u64;
                output
            })
        });
        let pieces = sessions.flat_map(|output| {
            let pieces: Vec<Vec<u8>> = output.chunks(PIECE).map(<[u8]>::to_vec).collect();
            pieces
        });
        let time_at = |offset: u64| start + length.mul_f64(0.99 * offset as f64 / total as f64);
        synthetic::record_timed(&path, size, time_at, pieces)?;
        let meta = Meta {
            started_at: start,
            cmd: vec!["agent".to_string()],
            cols: size.cols,
            rows: size.rows,
            id: Some(id),
            node: Some(node.to_string()),
            server: Some("default".to_string()),
            ended_at: Some(start + length.mul_f64(0.995)),
            exit: Some(ExitStatus::Code(0)),
            ..Meta::default()
        };
        meta.store(&path).context("cannot write metadata")
    }

    fn write_turn(&self, history: &mut HistoryWriter, number: usize, at: TsNs) {
        let (random, vocabulary) = (&mut Random(number as u64), &self.vocabulary);
        let count = |least: u64, most: u64| least + Random(number as u64 ^ least).below(most - least);
        let (prompt, answer, output) = (count(10, 20), count(50, 130), count(20, 60));
        let input = vocabulary.sentence(random, prompt);
        let mut text = vocabulary.sentence(random, answer);
        if random.below(ERROR_CODE_INTERVAL) == 0 {
            text.push_str(&format!(" E0{:03}", random.below(1000)));
        }
        let rare_interval = TURNS / RARE_WORDS;
        if number % rare_interval == rare_interval / 2 {
            text.push_str(&format!(" {}", rare_word(number / rare_interval)));
        }
        let tool = Section::new(SectionKind::ToolCall, vocabulary.sentence(random, output))
            .with("tool", "Bash")
            .with("args", vocabulary.sentence(random, 6));
        let sections = vec![tool, Section::new(SectionKind::Text, text)];
        let response = ResponseData { sections, tokens: None, is_complete: true, is_ready: true };
        let ts_end = at + self.interval / 4;
        let entry = SendEntry {
            ts_start: at,
            ts_end,
            input: &input,
            preceding_buffer_seq: None,
            response,
            usage: None,
        };
        history.log(&Operation::Send(entry));
    }
}
