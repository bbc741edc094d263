//! The text of `help`.

/// Overview of the commands.
pub(super) const TEXT: &str = "\
NODES
  node create NAME -c COMMAND   start a program in a terminal
  node create NAME -b bash      no terminal: one 'bash -c' for each prompt
  fork NODE [NAME] [--at TURN]  a new node with NODE's conversation
  node list|info|stop|start     and the others of 'nerve node'
  @NODE TEXT                    send a prompt and stream the answer
  @NODE                         a prompt of several lines, up to \"\"\"
  send NODE TEXT                send a prompt and print the whole answer
  read NODE [N]                 print its terminal, or the last N lines
  run NODE COMMAND              type a command without waiting
  write NODE DATA               write to its terminal; escapes: \\r, \\x03, \\e
  interrupt NODE                interrupt its turn
  wait NODE [STATE]             wait until it is ready, or in STATE
  history NODE [N]              print its audit log
  why NODE                      explain its state and show its screen
  answer NODE CHOICE            answer the dialog that blocks it

GRAPHS
  graph new ID | load FILE | save [FILE]
  step add ID NODE [INPUT] [--after A,B]    step remove ID    chain A B C
  validate    dry    show [mermaid|dot|yaml]
  run [KEY=VALUE]... [--detach]             run the current graph
  gate CHOICE    cancel [RUN]    follow [RUN]    runs    result [STEP]
  graph list | get ID | create | delete ID  the session's registered graphs

OTHER
  session [NAME]    sessions    events on|off    help COMMAND    exit [--keep]

A line that ends with \\ is continued. \"\"\" at the end of a line opens a text
block, and \"\"\" on its own line closes it. Ctrl-C interrupts a command; pressed
twice at an empty prompt it exits. Exiting stops what was started here.";

#[cfg(test)]
mod tests {
    use super::TEXT;
    use crate::parser::declaration;

    #[test]
    fn fits_80_columns() {
        for line in TEXT.lines() {
            assert!(line.len() < 80, "{line}");
        }
    }

    #[test]
    fn lists_every_command() {
        for command in declaration().get_subcommands() {
            assert!(TEXT.contains(command.get_name()), "{} is not in the help", command.get_name());
        }
    }
}
