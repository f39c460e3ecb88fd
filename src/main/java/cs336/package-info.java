/**
 * The command line: {@link cs336.Main} has one subcommand per task, and {@link cs336.ReportCommand} runs all notebooks
 * and builds the writeup and the website. May use all packages.
 */
package cs336;
