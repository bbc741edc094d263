//! Encodes and decodes requests and events.

use nerve_types::{ExitStatus, Origin, Size, TsNs};

use super::frames::{BadFrame, frame};
use super::{HostEvent, HostRequest, Window};

impl HostRequest {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            HostRequest::Subscribe { off, allow_gap } => frame(out, 1, |out| {
                out.extend(off.to_le_bytes());
                out.push(u8::from(*allow_gap));
            }),
            HostRequest::Input { origin, bytes } => frame(out, 2, |out| {
                out.push(origin_code(*origin));
                out.extend(bytes);
            }),
            HostRequest::Resize(size) => frame(out, 3, |out| put_size(out, *size)),
            HostRequest::Stop => frame(out, 4, |_| {}),
            HostRequest::AckExit => frame(out, 5, |_| {}),
            HostRequest::Remember(memory) => frame(out, 6, |out| out.extend(memory.to_string().as_bytes())),
            HostRequest::View(window) => frame(out, 7, |out| match window {
                Window::Keep => out.push(0),
                Window::Shares(size) => {
                    out.push(1);
                    put_size(out, *size);
                }
                Window::Sets(size) => {
                    out.push(2);
                    put_size(out, *size);
                }
            }),
        }
    }

    /// Decodes the body of a frame; `None` for an unknown kind.
    ///
    /// # Errors
    /// [`BadFrame`].
    pub fn decode(body: &[u8]) -> Result<Option<HostRequest>, BadFrame> {
        let mut fields = Fields(body);
        Ok(Some(match fields.byte()? {
            1 => HostRequest::Subscribe { off: fields.u64()?, allow_gap: fields.byte()? != 0 },
            2 => HostRequest::Input { origin: origin(fields.byte()?), bytes: fields.0.to_vec() },
            3 => HostRequest::Resize(fields.size()?),
            4 => HostRequest::Stop,
            5 => HostRequest::AckExit,
            6 => {
                HostRequest::Remember(serde_json::from_slice(fields.0).map_err(|_| BadFrame("invalid JSON"))?)
            }
            7 => HostRequest::View(match fields.byte()? {
                0 => Window::Keep,
                1 => Window::Shares(fields.size()?),
                2 => Window::Sets(fields.size()?),
                _ => return Ok(None),
            }),
            _ => return Ok(None),
        }))
    }
}

impl HostEvent {
    /// Returns the frame.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        self.encode(&mut frame);
        frame
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            HostEvent::Hello(hello) => frame(out, 1, |out| {
                // Cannot fail; the reader rejects an empty body.
                out.extend(serde_json::to_vec(hello).unwrap_or_default());
            }),
            HostEvent::Output { at, off, bytes } => encode_output(out, *at, *off, bytes),
            HostEvent::Resized(size) => frame(out, 3, |out| put_size(out, *size)),
            HostEvent::Snapshot { at, id, anchor, label } => frame(out, 4, |out| {
                for number in [at.0, *id, *anchor] {
                    out.extend(number.to_le_bytes());
                }
                out.extend(label.as_bytes());
            }),
            HostEvent::Fault(text) => frame(out, 5, |out| out.extend(text.as_bytes())),
            HostEvent::Behind { recorded } => frame(out, 6, |out| {
                out.push(u8::from(recorded.is_some()));
                out.extend(recorded.unwrap_or(0).to_le_bytes());
            }),
            HostEvent::Exited(exit) => frame(out, 7, |out| {
                let (kind, code) = match exit {
                    ExitStatus::Code(code) => (0, *code),
                    ExitStatus::Signal(signal) => (1, *signal),
                    ExitStatus::Unknown => (2, 0),
                };
                out.push(kind);
                out.extend(code.to_le_bytes());
            }),
            HostEvent::Closed => frame(out, 8, |_| {}),
            HostEvent::Typed { origin } => frame(out, 9, |out| out.push(origin_code(*origin))),
            HostEvent::Full(text) => frame(out, 10, |out| out.extend(text.as_bytes())),
        }
    }

    /// Decodes the body of a frame; `None` for an unknown kind.
    ///
    /// # Errors
    /// [`BadFrame`].
    pub fn decode(body: &[u8]) -> Result<Option<HostEvent>, BadFrame> {
        let mut fields = Fields(body);
        Ok(Some(match fields.byte()? {
            1 => {
                HostEvent::Hello(serde_json::from_slice(fields.0).map_err(|_| BadFrame("invalid greeting"))?)
            }
            2 => HostEvent::Output { at: TsNs(fields.u64()?), off: fields.u64()?, bytes: fields.0.to_vec() },
            3 => HostEvent::Resized(fields.size()?),
            4 => HostEvent::Snapshot {
                at: TsNs(fields.u64()?),
                id: fields.u64()?,
                anchor: fields.u64()?,
                label: fields.text(),
            },
            5 => HostEvent::Fault(fields.text()),
            6 => {
                let has_recording = fields.byte()? != 0;
                let recorded = fields.u64()?;
                HostEvent::Behind { recorded: has_recording.then_some(recorded) }
            }
            7 => {
                let kind = fields.byte()?;
                let code = i32::from_le_bytes(fields.take()?);
                HostEvent::Exited(match kind {
                    0 => ExitStatus::Code(code),
                    1 => ExitStatus::Signal(code),
                    _ => ExitStatus::Unknown,
                })
            }
            8 => HostEvent::Closed,
            9 => HostEvent::Typed { origin: origin(fields.byte()?) },
            10 => HostEvent::Full(fields.text()),
            _ => return Ok(None),
        }))
    }
}

/// Appends a [`HostEvent::Output`] frame without owning the bytes.
pub(crate) fn encode_output(out: &mut Vec<u8>, at: TsNs, off: u64, bytes: &[u8]) {
    out.reserve(bytes.len() + 21);
    frame(out, 2, |out| {
        out.extend(at.0.to_le_bytes());
        out.extend(off.to_le_bytes());
        out.extend(bytes);
    });
}

fn put_size(out: &mut Vec<u8>, size: Size) {
    out.extend(size.cols.to_le_bytes());
    out.extend(size.rows.to_le_bytes());
}

fn origin_code(origin: Origin) -> u8 {
    match origin {
        Origin::User => 0,
        Origin::Api => 1,
        Origin::Injected => 2,
        Origin::Terminal => 3,
    }
}

fn origin(code: u8) -> Origin {
    match code {
        0 => Origin::User,
        2 => Origin::Injected,
        3 => Origin::Terminal,
        _ => Origin::Api,
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadFrame> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(BadFrame("too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn byte(&mut self) -> Result<u8, BadFrame> {
        Ok(self.take::<1>()?[0])
    }

    fn u64(&mut self) -> Result<u64, BadFrame> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn size(&mut self) -> Result<Size, BadFrame> {
        let cols = u16::from_le_bytes(self.take()?);
        Ok(Size::new(cols, u16::from_le_bytes(self.take()?)))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Frames, Hello, VERSION};
    use super::*;

    #[test]
    fn requests_and_events_round_trip_in_any_pieces() {
        let requests = [
            HostRequest::Subscribe { off: u64::MAX, allow_gap: true },
            HostRequest::Input { origin: Origin::Injected, bytes: vec![0, 255, 13] },
            HostRequest::Resize(Size::new(80, 24)),
            HostRequest::Stop,
            HostRequest::AckExit,
            HostRequest::Remember(serde_json::json!({"a": [1]})),
            HostRequest::View(Window::Keep),
            HostRequest::View(Window::Shares(Size::new(1, 65535))),
            HostRequest::View(Window::Sets(Size::new(80, 24))),
        ];
        let events = [
            HostEvent::Output { at: TsNs(7), off: 9, bytes: b"\x1b[2J".to_vec() },
            HostEvent::Snapshot { at: TsNs(1), id: 2, anchor: 3, label: "ä".into() },
            HostEvent::Behind { recorded: Some(5) },
            HostEvent::Full("ü".into()),
            HostEvent::Behind { recorded: None },
            HostEvent::Exited(ExitStatus::Signal(9)),
            HostEvent::Fault("full".into()),
            HostEvent::Closed,
            HostEvent::Typed { origin: Origin::User },
            HostEvent::Resized(Size::new(7, 8)),
        ];
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.encode(&mut bytes));
        let split = bytes.len();
        events.iter().for_each(|event| event.encode(&mut bytes));
        for step in [1, 3, 1000] {
            let mut frames = Frames::default();
            let mut bodies = Vec::new();
            for piece in bytes.chunks(step) {
                frames.read_buffer().extend(piece);
                while let Some(body) = frames.take().unwrap() {
                    bodies.push(body.to_vec());
                }
            }
            let got: Vec<_> = bodies[..requests.len()]
                .iter()
                .map(|body| HostRequest::decode(body).unwrap().unwrap())
                .collect();
            assert_eq!(got, requests);
            let got: Vec<_> = bodies[requests.len()..]
                .iter()
                .map(|body| HostEvent::decode(body).unwrap().unwrap())
                .collect();
            assert_eq!(got, events);
        }
        assert!(split > 0);
    }

    fn hello(faults: &[&str], total_faults: usize, label: &str) -> Hello {
        Hello {
            version: VERSION,
            child: 1,
            cols: 80,
            rows: 24,
            off: 0,
            oldest: 0,
            recorded: None,
            recording: None,
            faults: faults.iter().copied().map(String::from).collect(),
            total_faults,
            label: label.into(),
            was_typed: false,
        }
    }

    #[test]
    fn greeting_with_long_command_is_one_frame() {
        let greeting = HostEvent::Hello(Box::new(hello(&[], 0, &"x".repeat(2 << 20))));
        let mut frames = Frames::default();
        greeting.encode(frames.read_buffer());
        let body = frames.take().unwrap().unwrap();
        assert_eq!(HostEvent::decode(body), Ok(Some(greeting)));
    }

    #[test]
    fn known_faults_are_not_reported_again() {
        assert_eq!(hello(&["c", "d"], 4, "").faults_after(3), (4, &["d".to_string()][..]));
        assert_eq!(hello(&["c", "d"], 4, "").faults_after(0).1.len(), 2);
        assert!(hello(&["c", "d"], 4, "").faults_after(4).1.is_empty());
        // An older host.
        assert_eq!(hello(&["a", "b"], 0, "").faults_after(1), (2, &["b".to_string()][..]));
    }

    #[test]
    fn invalid_frames_fail_and_unknown_kinds_are_ignored() {
        let mut frames = Frames::default();
        frames.read_buffer().extend(0xFFFF_FFFF_u32.to_le_bytes());
        assert!(frames.take().is_err());
        assert_eq!(HostRequest::decode(&[99, 1, 2]), Ok(None));
        assert_eq!(HostRequest::decode(&[7, 99]), Ok(None), "a way to look that comes later");
        assert_eq!(HostEvent::decode(&[99]), Ok(None));
        assert!(HostRequest::decode(&[7, 1, 80]).is_err());
        assert!(HostRequest::decode(&[]).is_err());
        assert!(HostRequest::decode(&[1, 0]).is_err());
        assert!(HostEvent::decode(&[1, b'{']).is_err());
    }
}
