use nerve_term::{event::*,terminal::*};
fn main(){ let f=std::env::args().nth(1).unwrap(); let mut t=TerminalState::new(Size::default()); t.process_data(TsNs(0),&std::fs::read(f).unwrap());
 for l in 0..t.line_count(){ println!("{l:5} {}", t.line_text(LineIndex(l)).unwrap_or("GONE".into())); } }
