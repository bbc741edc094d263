//! Commands on the current graph and on runs.

use std::path::Path;

use anyhow::Result;
use nerve_api::reply::{GateInfo, RunInfo};
use nerve_client::RunOptions;
use nerve_commands::clock;
use nerve_commands::event_line::{format_question, step_count};
use nerve_commands::failure::{FAILED, Failure, NOT_FOUND, USAGE};
use nerve_commands::graph_file::missing_nodes;
use nerve_commands::node_command::shell_env;
use nerve_commands::out;
use nerve_commands::run_display::resolve_choice;
use nerve_graph::diagram;
use nerve_graph::file::{Format, GraphFile};
use nerve_graph::journal::new_run_id;
use serde_json::{Map, Value};

use super::command::{DraftCommand, GateArgs, GraphCommand, GraphRunArgs, ShowFormat, StepCommand};
use super::draft::Draft;
use super::runs::RunEnd;
use super::shell::Shell;

impl Shell {
    /// Executes a `graph` command.
    pub(super) async fn graph(&mut self, command: GraphCommand) -> Result<()> {
        let (client, session) = (self.client.clone(), self.session());
        let session = session.as_deref();
        match command {
            GraphCommand::New(args) => {
                let draft = Draft::new(&args.id)?;
                self.set_draft(draft);
                out::line(format_args!(
                    "graph '{}' is now current; add steps with 'step add ID NODE INPUT'",
                    args.id
                ))
            }
            GraphCommand::Load(args) => self.load(&args.file),
            GraphCommand::Save(args) => {
                let draft = self.draft_mut()?;
                let path = draft.save(args.file.as_deref())?;
                out::line(format_args!("graph '{}' saved to {}", draft.id(), path.display()))
            }
            GraphCommand::Run(args) => self.run_graph(&args).await,
            GraphCommand::List => {
                let graphs = self.wait_briefly(async { Ok(client.list_graphs(session).await?) }).await?;
                let rows: Vec<Vec<String>> =
                    graphs.into_iter().map(|graph| vec![graph.graph_id, graph.steps.join(", ")]).collect();
                out::table(&["graph", "steps"], &rows)
            }
            GraphCommand::Get(args) => {
                let graph =
                    self.wait_briefly(async { Ok(client.get_graph(&args.graph, session).await?) }).await?;
                self.set_draft(Draft::from_definition(graph.definition));
                self.print_current()
            }
            GraphCommand::Create => {
                let definition = self.definition()?;
                let created =
                    self.wait_briefly(async { Ok(client.create_graph(definition, session).await?) }).await?;
                out::line(format_args!("graph '{}' registered", created.graph_id))
            }
            GraphCommand::Delete(args) => {
                self.wait_briefly(async { Ok(client.delete_graph(&args.graph, session).await?) }).await?;
                out::line(format_args!("graph '{}' deleted", args.graph))
            }
            GraphCommand::Draft(args) => self.draft_command(args).await,
        }
    }

    /// Executes a command on the current graph.
    pub(super) async fn draft_command(&mut self, command: DraftCommand) -> Result<()> {
        match command {
            DraftCommand::Validate => self.validate().await,
            DraftCommand::Dry => self.dry_run().await,
            DraftCommand::Show(args) => self.show(args.format),
            DraftCommand::Cancel(args) => self.cancel(args.run).await,
        }
    }

    /// Loads a graph file.
    pub(super) fn load(&mut self, path: &Path) -> Result<()> {
        let draft = Draft::load(path)?;
        self.set_draft(draft);
        self.print_current()
    }

    /// Executes a `step` command.
    pub(super) fn step(&mut self, command: StepCommand) -> Result<()> {
        let draft = self.draft_mut()?;
        match command {
            StepCommand::Add(args) => {
                draft.add_step(&args.id, &args.node, &args.input.join(" "), &args.after)?
            }
            StepCommand::Remove(args) => {
                let dependents = draft.remove_step(&args.step)?;
                if !dependents.is_empty() {
                    let verb = if dependents.len() == 1 { "depends" } else { "depend" };
                    out::line(format_args!("{} no longer {verb} on it", dependents.join(", ")))?;
                }
            }
        }
        self.update_completion();
        Ok(())
    }

    /// Executes `chain A B C`.
    pub(super) fn chain(&mut self, steps: &[String]) -> Result<()> {
        self.draft_mut()?.chain(steps)?;
        self.update_completion();
        Ok(())
    }

    async fn validate(&mut self) -> Result<()> {
        let file = self.graph_file()?;
        self.warn_of_missing_nodes(&file).await?;
        out::line(format_args!("graph '{}' is valid: {}", file.graph, step_count(file.steps.len())))
    }

    async fn dry_run(&mut self) -> Result<()> {
        let file = self.graph_file()?;
        let compiled = file.compile().map_err(|error| Failure::new(USAGE, error.to_string()))?;
        let order = compiled.graph.execution_order()?;
        let row = |(at, id): (usize, &String)| {
            let step = file.steps.iter().find(|step| step.id == *id)?;
            let node = step.node.clone().unwrap_or_else(|| "(gate)".to_string());
            Some(vec![
                (at + 1).to_string(),
                id.clone(),
                node,
                step.depends_on.join(", "),
                input_preview(&step.input),
            ])
        };
        let rows: Vec<Vec<String>> = order.iter().enumerate().filter_map(row).collect();
        out::table(&["", "step", "node", "after", "input"], &rows)?;
        self.warn_of_missing_nodes(&file).await?;
        Ok(())
    }

    fn show(&self, format: ShowFormat) -> Result<()> {
        match format {
            ShowFormat::Yaml => out::text(&self.draft()?.serialize(Format::Yaml)?),
            ShowFormat::Text => out::text(&diagram::text(&self.graph_file()?)),
            ShowFormat::Mermaid => out::text(&diagram::mermaid(&self.graph_file()?)),
            ShowFormat::Dot => out::text(&diagram::dot(&self.graph_file()?)),
        }
    }

    async fn run_graph(&mut self, args: &GraphRunArgs) -> Result<()> {
        let input = read_input(args)?;
        if self.draft()?.step_ids().is_empty() {
            let failure = Failure::new(USAGE, format!("graph '{}' has no steps", self.draft()?.id()));
            return Err(failure.hint("add one with 'step add ID NODE INPUT'").into());
        }
        let definition = self.definition()?;
        let output_steps = self.draft()?.output_steps();
        // Chosen here, because events may arrive before the reply.
        let run_id = Some(new_run_id(clock::now()));
        let client = self.client.clone();
        let (session_id, shell_env) = (self.session(), shell_env(&client));
        let options = RunOptions { session_id, input, run_id, shell_env, ..RunOptions::default() };
        let run = self.runs.start(&client, definition, options, output_steps);
        if let Some(ended) = self.wait_for_start(&run).await? {
            return self.print_end(ended);
        }
        if args.detach {
            return out::line(format_args!("run {run} started; wait for it with 'follow'"));
        }
        self.follow_run(&run).await
    }

    /// Follows a run that was started here until it ends or waits at a gate.
    pub(super) async fn follow(&mut self, run: Option<String>) -> Result<()> {
        let run = match run {
            Some(run) if self.runs.is_active(&run) => run,
            Some(run) => {
                let failure = Failure::new(NOT_FOUND, format!("no active run '{run}' was started here"));
                return Err(failure.hint("'runs' lists the runs").into());
            }
            None => match self.runs.active().as_slice() {
                [one] => one.clone(),
                [] => return Err(Failure::new(NOT_FOUND, "no active run was started here").into()),
                several => {
                    let failure = Failure::new(USAGE, "several runs are active");
                    return Err(failure.hint(format!("choose one: {}", several.join(", "))).into());
                }
            },
        };
        self.follow_run(&run).await
    }

    async fn follow_run(&mut self, run: &str) -> Result<()> {
        match self.wait_for_end(run).await? {
            Some(ended) => self.print_end(ended),
            None => self.print_gates(run).await,
        }
    }

    /// Prints the open gates of a run. Events may be hidden.
    async fn print_gates(&mut self, run: &str) -> Result<()> {
        let client = self.client.clone();
        let info = self.wait_briefly(async { Ok(client.run_status(run, Some(0)).await?) }).await?;
        for gate in info.gates {
            out::line(format_args!("{} asks: {}", gate.step_id, format_question(&gate)))?;
        }
        self.screen.note("the run waits; answer with 'gate CHOICE'");
        Ok(())
    }

    fn print_end(&mut self, end: RunEnd) -> Result<()> {
        let data = end.outcome?;
        for fault in &data.faults {
            out::warning(out::preview(fault, 200));
        }
        self.print_result(None)
    }

    /// Prints results of the last run: of one step, or of the steps that no other depends on.
    pub(super) fn print_result(&self, step: Option<&str>) -> Result<()> {
        let Some((data, output_steps)) = self.runs.last_result() else {
            return Err(Failure::new(NOT_FOUND, "no run has ended yet")
                .hint("'run' runs the current graph")
                .into());
        };
        if let Some(step) = step {
            let Some(result) = data.results.get(step) else {
                let known: Vec<&str> = data.results.keys().map(String::as_str).collect();
                let failure = Failure::new(NOT_FOUND, format!("step '{step}' has no result"));
                return Err(failure.hint(format!("steps with a result: {}", known.join(", "))).into());
            };
            return print_value(result);
        }
        let results: Vec<(&String, &Value)> =
            output_steps.iter().filter_map(|step| Some((step, data.results.get(step)?))).collect();
        for (step, result) in &results {
            if results.len() > 1 {
                out::line(format_args!("{}{}{:#}", out::STRONG, out::preview(step, 200), out::STRONG))?;
            }
            print_value(result)?;
        }
        Ok(())
    }

    async fn cancel(&mut self, run: Option<String>) -> Result<()> {
        let runs = run.map_or_else(|| self.runs.active(), |run| vec![run]);
        if runs.is_empty() {
            return Err(Failure::new(NOT_FOUND, "no active run was started here")
                .hint("'runs' lists all")
                .into());
        }
        let client = self.client.clone();
        for run in runs {
            self.wait_briefly(async { Ok(client.cancel_run(&run).await?) }).await?;
            out::line(format_args!("run {run} cancelled"))?;
        }
        Ok(())
    }

    /// Prints a table of all runs.
    pub(super) async fn list_runs(&mut self) -> Result<()> {
        let client = self.client.clone();
        let runs = self.wait_briefly(async { Ok(client.runs().await?) }).await?;
        let row = |run: RunInfo| {
            let done = format!("{}/{}", run.done_steps, run.total_steps);
            let questions: Vec<&str> = run.gates.iter().map(|gate| gate.question.as_str()).collect();
            let more = run.error.clone().unwrap_or_else(|| questions.join("; "));
            vec![run.run_id, run.graph_id, run.status.to_string(), done, out::preview(&more, 60)]
        };
        let rows: Vec<Vec<String>> = runs.into_iter().map(row).collect();
        out::table(&["run", "graph", "status", "steps", ""], &rows)
    }

    /// Executes `gate CHOICE`.
    pub(super) async fn answer_gate(&mut self, args: GateArgs) -> Result<()> {
        let client = self.client.clone();
        let runs = self.wait_briefly(async { Ok(client.runs().await?) }).await?;
        let (run, gate) = self.find_gate(&runs, &args)?;
        let choice = resolve_choice(&args.choice.join(" "), &gate.choices);
        self.wait_briefly(async { Ok(client.answer_gate(&run, Some(&gate.step_id), &choice).await?) })
            .await?;
        self.runs.on_gate_answered(&run, &gate.step_id);
        if self.runs.is_active(&run) { self.follow_run(&run).await } else { Ok(()) }
    }

    /// Returns the selected gate. Runs that were started here take precedence.
    fn find_gate(&self, runs: &[RunInfo], args: &GateArgs) -> Result<(String, GateInfo)> {
        let is_selected = |run: &RunInfo| args.run.as_ref().is_none_or(|id| *id == run.run_id);
        let mut gates: Vec<(String, GateInfo)> = runs
            .iter()
            .filter(|run| is_selected(run))
            .flat_map(|run| run.gates.iter().map(|gate| (run.run_id.clone(), gate.clone())))
            .filter(|(_, gate)| args.step.as_ref().is_none_or(|step| *step == gate.step_id))
            .collect();
        if gates.len() > 1 && gates.iter().any(|(run, _)| self.runs.is_active(run)) {
            gates.retain(|(run, _)| self.runs.is_active(run));
        }
        let waiting: Vec<String> =
            gates.iter().map(|(run, gate)| format!("--run {run} --step {}", gate.step_id)).collect();
        match <[_; 1]>::try_from(gates) {
            Ok([gate]) => Ok(gate),
            Err(_) if waiting.is_empty() => Err(Failure::new(NOT_FOUND, "no matching gate is open").into()),
            Err(_) => {
                Err(Failure::new(USAGE, "several gates are open").hint(waiting.join("\n      ")).into())
            }
        }
    }

    /// Warns about nodes that do not exist yet.
    async fn warn_of_missing_nodes(&mut self, file: &GraphFile) -> Result<()> {
        let (client, session) = (self.client.clone(), self.session());
        let info = self.wait_briefly(async { Ok(client.session(session.as_deref()).await?) }).await?;
        missing_nodes::warn(file, &info);
        Ok(())
    }

    /// Returns the definition to send. Nodes without a working directory use the current one.
    fn definition(&self) -> Result<Map<String, Value>> {
        nerve_commands::graph_file::definition(self.graph_file()?)
    }

    fn graph_file(&self) -> Result<GraphFile> {
        Ok(self.draft()?.graph_file()?)
    }

    fn print_current(&self) -> Result<()> {
        let draft = self.draft()?;
        out::line(format_args!(
            "graph '{}' is now current: {}",
            draft.id(),
            step_count(draft.step_ids().len())
        ))
    }

    fn set_draft(&mut self, draft: Draft) {
        self.draft = Some(draft);
        self.update_completion();
    }

    /// Updates the steps that completion offers.
    fn update_completion(&self) {
        let steps = self.draft.as_ref().map(Draft::step_ids).unwrap_or_default();
        self.state.lock().steps = steps;
    }

    fn draft(&self) -> Result<&Draft, Failure> {
        self.draft.as_ref().ok_or_else(no_current_graph)
    }

    fn draft_mut(&mut self) -> Result<&mut Draft, Failure> {
        self.draft.as_mut().ok_or_else(no_current_graph)
    }
}

fn no_current_graph() -> Failure {
    Failure::new(FAILED, "no current graph")
        .hint("create one with 'graph new ID', or load one with 'graph load FILE'")
}

fn input_preview(input: &Value) -> String {
    let text = input.as_str().map_or_else(|| input.to_string(), str::to_string);
    if input.is_null() { String::new() } else { out::preview(&text, 60) }
}

/// Combines `--input` and the fields.
fn read_input(args: &GraphRunArgs) -> Result<Value> {
    let args =
        nerve_commands::graph_file::input::InputArgs { input: args.input.clone(), set: args.set.clone() };
    nerve_commands::graph_file::input::read(&args)
}

/// Prints a result: its text if it has one, otherwise JSON.
fn print_value(result: &Value) -> Result<()> {
    match result.as_str().or_else(|| result.get("text")?.as_str()) {
        Some(text) => out::text(text),
        None => out::json(result),
    }
}
