//! What `help` says.

/// The commands, by what they are for.
pub(super) const TEXT: &str = "\
NODES
  node create NAME -c COMMAND   start a program in a terminal
  node create NAME -b bash      no terminal: one 'bash -c' for each prompt
  fork NODE [NAME] [--at TURN]  a node that goes on from where NODE is
  node list|info|stop|start, and whatever else 'nerve server node' does
  @NODE TEXT                    a prompt; the answer is shown as it grows
  @NODE                         the same with the lines that follow, until \"\"\"
  send NODE TEXT                a prompt; the answer is printed at its end
  read NODE [N]                 the text of its terminal, or the last N lines
  run NODE COMMAND              type a command and do not wait
  write NODE DATA               write to its terminal; knows \\r, \\x03, \\e
  interrupt NODE                as Ctrl-C does while something runs
  wait NODE [STATE]             until it is ready, or in another state
  history NODE [N]              its audit log
  why NODE                      why it is in its state, and what it shows
  answer NODE CHOICE            the dialog that blocks it

GRAPHS
  graph new ID | load FILE | save [FILE]
  step add ID NODE [INPUT] [--after A,B]    step remove ID    chain A B C
  validate    dry    show [mermaid|dot|yaml]
  run [KEY=VALUE]... [--detach]             the current graph, as 'graph run'
  gate CHOICE    cancel [RUN]    follow [RUN]    runs    result [STEP]
  graph list | get ID | create | delete ID  those registered in the session

AND
  session [NAME]    sessions    events on|off    help COMMAND    exit [--keep]

A line that ends with \\ goes on; \"\"\" at the end of a line begins a text that
ends with \"\"\" on a line of its own. Ctrl-C interrupts what runs; at an empty
prompt twice it leaves. Leaving stops what was started here.";

#[cfg(test)]
mod tests {
    use super::TEXT;
    use crate::repl::parser::declaration;

    #[test]
    fn it_fits_a_window_of_80_columns() {
        for line in TEXT.lines() {
            assert!(line.len() < 80, "{line}");
        }
    }

    #[test]
    fn every_command_is_named() {
        for command in declaration().get_subcommands() {
            assert!(TEXT.contains(command.get_name()), "{} is not in the help", command.get_name());
        }
    }
}
