// Package taskruntime reads and writes tasks in the form of another program:
// snapshots of the schema session_runtime_v2, older snapshots, and event logs.
// Import creates a task from them, Export writes a snapshot. Import never
// changes its source.
package taskruntime
