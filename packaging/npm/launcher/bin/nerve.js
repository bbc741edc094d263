#!/usr/bin/env node
// Runs the program of the package for this platform: the same arguments, streams, signals and exit code.
"use strict";

const { spawn } = require("node:child_process");

const PACKAGE = `@SCOPE@/nerve-${process.platform}-${process.arch}`;
// Signals that are passed on. A terminal sends SIGINT and SIGQUIT to the program itself, too.
const SIGNALS = ["SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2"];
const FROM_TERMINAL = ["SIGINT", "SIGQUIT"];

function findProgram() {
  try {
    return require.resolve(`${PACKAGE}/bin/nerve`);
  } catch {
    console.error(`error: no program for ${process.platform} on ${process.arch}: the package ${PACKAGE} is missing`);
    console.error("hint: install it too, without --omit=optional");
    process.exit(1);
  }
}

function run(program) {
  const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
  for (const signal of SIGNALS) {
    process.on(signal, () => child.kill(signal));
  }
  for (const signal of FROM_TERMINAL) {
    process.on(signal, () => process.stdin.isTTY || child.kill(signal));
  }
  child.on("error", (error) => {
    console.error(`error: cannot run ${program}: ${error.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (signal === null) {
      process.exit(code);
    }
    // Ends like the program, so that the caller sees the signal.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

run(findProgram());
