package task

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Fingerprint is a call that failed, and how. Two are the same when all their
// fields are; the input is JSON with sorted keys.
type Fingerprint struct{ Tool, Input, Error string }

const maxFingerprint = 1200

// String is for people and for the wire. It is never read back.
func (f Fingerprint) String() string { return rendered(f.Tool + "::" + f.Input + "::" + f.Error) }

func rendered(text string) string { return firstChars(text, maxFingerprint) }

// Signature is the call without how it failed.
func (f Fingerprint) Signature() session.Signature {
	return session.Signature{Tool: f.Tool, Input: f.Input}
}

// blocks reports a call that must not be made again in this window. One that
// was blocked elsewhere is known by its text alone: the call whose rendering it
// is, with or without an error.
func blocks(l session.TaskLoop, call session.ToolCall) bool {
	input := sortedInput(call.Arguments)
	if b := l.Blocked; b != nil {
		return b.Tool == call.Name && b.Input == input
	}
	if text := l.BlockedText; text != nil {
		alone := call.Name + "::" + input
		return *text == rendered(alone) || strings.HasPrefix(*text, rendered(alone+"::"))
	}
	return false
}

// assessment is how a window went.
type assessment struct {
	score    float64
	risk     float64
	dominant *Fingerprint
	repeats  int // of the dominant one
	stops    int // answers in a row, at the end, that called tools and no file was written
}

// happening is an event of the log as an assessment reads it.
type happening struct {
	kind    string
	callID  string
	tool    string
	input   json.RawMessage
	err     string
	message *session.Message
}

// readHappening reads what matters of a change.
func readHappening(c session.Change) happening {
	switch c := c.(type) {
	case session.MessageAdded:
		return happening{kind: c.Kind(), message: &c.Message}
	case session.TaskEvent:
		var p struct {
			CallID string          `json:"callId"`
			Tool   string          `json:"tool"`
			Input  json.RawMessage `json:"input"`
			Error  json.RawMessage `json:"error"`
		}
		_ = json.Unmarshal(c.Data, &p) // an event of another shape has its kind
		h := happening{kind: c.Name, callID: p.CallID, tool: p.Tool, input: p.Input}
		if json.Unmarshal(p.Error, &h.err) != nil {
			h.err = string(p.Error)
		}
		return h
	}
	return happening{kind: c.Kind()}
}

// assessWindow reads the events of the window from the log.
func (r *Run) assessWindow(ctx context.Context) (assessment, error) {
	var events []happening
	for e, err := range r.x.rt.Log(ctx, r.ID(), r.state().Loop.WindowStart) {
		if err != nil {
			return assessment{}, fmt.Errorf("assess the window: %w", err)
		}
		if !e.Discarded {
			events = append(events, readHappening(e.Change))
		}
	}
	effects := map[string]tool.Effects{}
	if tools, err := r.catalogue(ctx); err == nil { // without it, names decide
		for _, t := range tools {
			effects[t.Spec().Name] = t.Spec().Effects
		}
	}
	return assess(events, effects), nil
}

// lookups are tools of other programs that read files.
var lookups = map[string]bool{
	"read_file": true, "list_directory": true, "list_files": true, "search_files": true, "glob": true, "find_in_file": true,
}

// reads reports a call that looks at files, web one that looks at the network.
func looks(name string, effects map[string]tool.Effects) (file, web bool) {
	if e, known := effects[name]; known && e != 0 {
		if ownTool(name) || e.Has(tool.Write|tool.Delete|tool.Shell) {
			return false, false
		}
		return e.Has(tool.Read), !e.Has(tool.Read) && e.Has(tool.Network)
	}
	if lookups[name] {
		return true, false
	}
	return false, strings.HasPrefix(name, "web_search") || strings.HasPrefix(name, "web_fetch") || strings.HasPrefix(name, "search")
}

// assess scores a window by what happened in it.
func assess(events []happening, effects map[string]tool.Effects) assessment {
	var raw float64
	var failures []Fingerprint
	inputs := map[string]json.RawMessage{}
	successes, stops, unresolved := 0, 0, false
	for _, e := range events {
		switch e.kind {
		case "message_added":
			m := e.message
			if m.Role != session.RoleAssistant {
				continue
			}
			if len(m.ToolCalls) > 0 {
				stops++
				continue
			}
			stops = 0
			if len([]rune(strings.TrimSpace(m.Content.Text()))) < 5 {
				raw -= 0.3
			}
		case "tool_call":
			inputs[e.callID] = e.input
		case "tool_result":
			successes++
			file, web := looks(e.tool, effects)
			if file {
				raw += 0.2
			}
			if web {
				raw += 0.3
			}
		case "file_created", "file_modified", "file_deleted", "artifact_created":
			raw += 0.6
			stops = 0
		case "step_completed":
			raw++
			if unresolved {
				raw += 0.4
			}
			unresolved = false
		case "tool_error", "error", "llm_error", "step_failed":
			unresolved = true
			if e.kind == "tool_error" {
				input := e.input
				if len(input) == 0 {
					input = inputs[e.callID]
				}
				failures = append(failures, Fingerprint{Tool: e.tool, Input: sortedInput(input), Error: e.err})
			}
		}
	}
	raw += 0.1 * float64(min(successes, 5))
	a := assessment{risk: riskOf(failures), stops: stops}
	for f, n := range tally(failures) {
		raw -= 0.4 * float64(n-1)
		if n > a.repeats {
			a.dominant, a.repeats = &f, n
		}
	}
	a.score = min(max(raw/4, -1), 1)
	return a
}

// tally goes over distinct fingerprints with how often each is there, in the
// order in which they were first seen.
func tally(failures []Fingerprint) func(func(Fingerprint, int) bool) {
	return func(yield func(Fingerprint, int) bool) {
		times := map[Fingerprint]int{}
		var order []Fingerprint
		for _, f := range failures {
			if times[f] == 0 {
				order = append(order, f)
			}
			times[f]++
		}
		for _, f := range order {
			if !yield(f, times[f]) {
				return
			}
		}
	}
}

const failuresOfRisk = 8

// riskOf is how likely the last failures are a loop, from 0 to 1.
func riskOf(failures []Fingerprint) float64 {
	last := failures[max(0, len(failures)-failuresOfRisk):]
	n := len(last)
	if n == 0 {
		return 0
	}
	most, unique := 0, 0
	for _, times := range tally(last) {
		unique++
		most = max(most, times)
	}
	risk := 0.1
	switch {
	case most >= 3:
		risk = 0.7
	case most == 2:
		risk = 0.4
	}
	if n > 1 {
		risk += 0.3 * float64(n-unique) / float64(n-1)
	}
	return min(max(risk, 0), 1)
}
