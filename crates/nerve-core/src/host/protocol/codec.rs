//! Orders and reports as bytes, and back.

use nerve_term::event::{ExitStatus, Origin, Size, TsNs};

use super::frames::{BadFrame, frame};
use super::{Order, Report, Window};

impl Order {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Order::From { off, whatever } => frame(out, 1, |out| {
                out.extend(off.to_le_bytes());
                out.push(u8::from(*whatever));
            }),
            Order::Input { origin, bytes } => frame(out, 2, |out| {
                out.push(origin_code(*origin));
                out.extend(bytes);
            }),
            Order::Resize(size) => frame(out, 3, |out| put_size(out, *size)),
            Order::Stop => frame(out, 4, |_| {}),
            Order::Seen => frame(out, 5, |_| {}),
            Order::Remember(memory) => frame(out, 6, |out| out.extend(memory.to_string().as_bytes())),
            Order::View(window) => frame(out, 7, |out| match window {
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

    /// Reads the body of a frame; `None` for a kind that is not known.
    ///
    /// # Errors
    /// [`BadFrame`].
    pub fn decode(body: &[u8]) -> Result<Option<Order>, BadFrame> {
        let mut fields = Fields(body);
        Ok(Some(match fields.byte()? {
            1 => Order::From { off: fields.u64()?, whatever: fields.byte()? != 0 },
            2 => Order::Input { origin: origin(fields.byte()?), bytes: fields.0.to_vec() },
            3 => Order::Resize(fields.size()?),
            4 => Order::Stop,
            5 => Order::Seen,
            6 => Order::Remember(serde_json::from_slice(fields.0).map_err(|_| BadFrame("it is no JSON"))?),
            7 => Order::View(match fields.byte()? {
                0 => Window::Keep,
                1 => Window::Shares(fields.size()?),
                2 => Window::Sets(fields.size()?),
                _ => return Ok(None),
            }),
            _ => return Ok(None),
        }))
    }
}

impl Report {
    /// The frame.
    pub(in crate::host) fn encoded(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        self.encode(&mut frame);
        frame
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Report::Hello(hello) => frame(out, 1, |out| {
                // Strings, numbers and paths: it cannot fail, and an empty body is refused by the reader.
                out.extend(serde_json::to_vec(hello).unwrap_or_default());
            }),
            Report::Output { at, off, bytes } => encode_output(out, *at, *off, bytes),
            Report::Resized(size) => frame(out, 3, |out| put_size(out, *size)),
            Report::Snapshot { at, id, anchor, label } => frame(out, 4, |out| {
                for number in [at.0, *id, *anchor] {
                    out.extend(number.to_le_bytes());
                }
                out.extend(label.as_bytes());
            }),
            Report::Fault(text) => frame(out, 5, |out| out.extend(text.as_bytes())),
            Report::Behind { recorded } => frame(out, 6, |out| {
                out.push(u8::from(recorded.is_some()));
                out.extend(recorded.unwrap_or(0).to_le_bytes());
            }),
            Report::Exited(exit) => frame(out, 7, |out| {
                let (kind, code) = match exit {
                    ExitStatus::Code(code) => (0, *code),
                    ExitStatus::Signal(signal) => (1, *signal),
                    ExitStatus::Unknown => (2, 0),
                };
                out.push(kind);
                out.extend(code.to_le_bytes());
            }),
            Report::Closed => frame(out, 8, |_| {}),
            Report::Typed { origin } => frame(out, 9, |out| out.push(origin_code(*origin))),
            Report::Full(text) => frame(out, 10, |out| out.extend(text.as_bytes())),
        }
    }

    /// Reads the body of a frame; `None` for a kind that is not known.
    ///
    /// # Errors
    /// [`BadFrame`].
    pub fn decode(body: &[u8]) -> Result<Option<Report>, BadFrame> {
        let mut fields = Fields(body);
        Ok(Some(match fields.byte()? {
            1 => Report::Hello(
                serde_json::from_slice(fields.0).map_err(|_| BadFrame("the greeting is not understood"))?,
            ),
            2 => Report::Output { at: TsNs(fields.u64()?), off: fields.u64()?, bytes: fields.0.to_vec() },
            3 => Report::Resized(fields.size()?),
            4 => Report::Snapshot {
                at: TsNs(fields.u64()?),
                id: fields.u64()?,
                anchor: fields.u64()?,
                label: fields.text(),
            },
            5 => Report::Fault(fields.text()),
            6 => {
                let known = fields.byte()? != 0;
                let recorded = fields.u64()?;
                Report::Behind { recorded: known.then_some(recorded) }
            }
            7 => {
                let kind = fields.byte()?;
                let code = i32::from_le_bytes(fields.take()?);
                Report::Exited(match kind {
                    0 => ExitStatus::Code(code),
                    1 => ExitStatus::Signal(code),
                    _ => ExitStatus::Unknown,
                })
            }
            8 => Report::Closed,
            9 => Report::Typed { origin: origin(fields.byte()?) },
            10 => Report::Full(fields.text()),
            _ => return Ok(None),
        }))
    }
}

/// Appends a [`Report::Output`] frame without taking the bytes.
pub(in crate::host) fn encode_output(out: &mut Vec<u8>, at: TsNs, off: u64, bytes: &[u8]) {
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
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(BadFrame("it is too short"))?;
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
    use super::super::Frames;
    use super::*;

    #[test]
    fn orders_and_reports_survive_the_way_in_any_pieces() {
        let orders = [
            Order::From { off: u64::MAX, whatever: true },
            Order::Input { origin: Origin::Injected, bytes: vec![0, 255, 13] },
            Order::Resize(Size::new(80, 24)),
            Order::Stop,
            Order::Seen,
            Order::Remember(serde_json::json!({"a": [1]})),
            Order::View(Window::Keep),
            Order::View(Window::Shares(Size::new(1, 65535))),
            Order::View(Window::Sets(Size::new(80, 24))),
        ];
        let reports = [
            Report::Output { at: TsNs(7), off: 9, bytes: b"\x1b[2J".to_vec() },
            Report::Snapshot { at: TsNs(1), id: 2, anchor: 3, label: "ä".into() },
            Report::Behind { recorded: Some(5) },
            Report::Full("ü".into()),
            Report::Behind { recorded: None },
            Report::Exited(ExitStatus::Signal(9)),
            Report::Fault("full".into()),
            Report::Closed,
            Report::Typed { origin: Origin::User },
            Report::Resized(Size::new(7, 8)),
        ];
        let mut bytes = Vec::new();
        orders.iter().for_each(|order| order.encode(&mut bytes));
        let split = bytes.len();
        reports.iter().for_each(|report| report.encode(&mut bytes));
        for step in [1, 3, 1000] {
            let mut frames = Frames::default();
            let mut bodies = Vec::new();
            for piece in bytes.chunks(step) {
                frames.room().extend(piece);
                while let Some(body) = frames.take().unwrap() {
                    bodies.push(body.to_vec());
                }
            }
            let got: Vec<_> =
                bodies[..orders.len()].iter().map(|body| Order::decode(body).unwrap().unwrap()).collect();
            assert_eq!(got, orders);
            let got: Vec<_> =
                bodies[orders.len()..].iter().map(|body| Report::decode(body).unwrap().unwrap()).collect();
            assert_eq!(got, reports);
        }
        assert!(split > 0);
    }

    #[test]
    fn bad_frames_are_refused_before_memory_is_given_and_unknown_kinds_passed_over() {
        let mut frames = Frames::default();
        frames.room().extend(0xFFFF_FFFF_u32.to_le_bytes());
        assert!(frames.take().is_err());
        assert_eq!(Order::decode(&[99, 1, 2]), Ok(None));
        assert_eq!(Order::decode(&[7, 99]), Ok(None), "a way to look that comes later");
        assert_eq!(Report::decode(&[99]), Ok(None));
        assert!(Order::decode(&[7, 1, 80]).is_err());
        assert!(Order::decode(&[]).is_err());
        assert!(Order::decode(&[1, 0]).is_err());
        assert!(Report::decode(&[1, b'{']).is_err());
    }
}
