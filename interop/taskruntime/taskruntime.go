// Package taskruntime reads and writes tasks in the form of another program:
// snapshots named session_runtime_v2, the older ones before them, and the
// events of a task. Import makes a task of them and Export writes one. What
// is read is never written.
package taskruntime
