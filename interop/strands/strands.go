// Package strands reads and writes the session directories of strands-cli, a
// Python program that runs workflows of agents.
//
// A Dir is the directory of one session, a Repository the directory that holds
// many. Files come out byte for byte as the Python program writes them, so that
// either program can go on with what the other left; keys that this package
// does not know keep their place and value. The one thing added is the key
// "holdfast", which the other program ignores.
//
//	session_<id>/
//	  session.json                 State without its pattern state
//	  pattern_state.json           State.Pattern
//	  spec_snapshot.yaml           the spec's bytes
//	  spec_files.json              SpecFile: copies of what the spec refers to
//	  .lock
//	  agents/session_<id>_<agent>/ Conversation
//	    session.json
//	    multi_agents/
//	    agents/agent_default/agent.json
//	    agents/agent_default/messages/message_<n>.json
//
// Strings with half a surrogate pair lose it (U+FFFD), and NaN and Infinity,
// which Python writes though JSON has no such numbers, make a file corrupt.
package strands

import (
	"path/filepath"
	"strings"
)

// The names in a session directory.
const (
	sessionFile   = "session.json"
	patternFile   = "pattern_state.json"
	snapshotFile  = "spec_snapshot.yaml"
	specFilesFile = "spec_files.json"
	specFilesDir  = "spec_files"
	lockFile      = ".lock"
	agentsDir     = "agents"
	logDir        = "holdfast"

	multiAgentsDir = "multi_agents"
	agentFile      = "agent.json"
	messagesDir    = "messages"
	defaultAgent   = "agent_default"

	sessionPrefix = "session_"
	agentPrefix   = "agent_"
	messagePrefix = "message_"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Dir is the path of one session's directory. Its name says the session's id,
// but a directory that was renamed can be read too.
//
// Dir does not lock on its own: whoever writes holds Lock.
type Dir string

// ID returns the session's id as the directory's name says it.
func (d Dir) ID() string {
	return strings.TrimPrefix(filepath.Base(string(d)), sessionPrefix)
}

// AgentsDir returns where the conversations of the agents lie. It may not exist.
func (d Dir) AgentsDir() string { return d.file(agentsDir) }

// SnapshotPath returns the file with the spec. It may not exist.
func (d Dir) SnapshotPath() string { return d.file(snapshotFile) }

// LogDir returns where a program that works in this directory keeps what the
// layout has no place for. It may not exist.
func (d Dir) LogDir() string { return d.file(logDir) }

func (d Dir) file(name string) string { return filepath.Join(string(d), name) }
