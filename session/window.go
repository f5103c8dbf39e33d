package session

import (
	"slices"
)

// Group is the smallest part of a transcript that enters or leaves a window:
// an assistant message with tool calls and all results of those calls, or any
// other message alone. From and To are indexes, To exclusive. Open groups lack
// a result.
type Group struct {
	From, To int
	Open     bool
}

// Groups splits messages. A result belongs to the nearest earlier assistant
// message with that call id. What stands between a call and its last result
// is of its group too, so that groups never overlap.
func Groups(messages []Message) []Group {
	answers := answered(messages)
	var groups []Group
	for i := 0; i < len(messages); {
		g := Group{From: i, To: i + 1}
		for j := i; j < g.To; j++ {
			for k := range messages[j].ToolCalls {
				at, ok := answers[callRef{j, k}]
				g.Open = g.Open || !ok
				g.To = max(g.To, at+1)
			}
		}
		groups = append(groups, g)
		i = g.To
	}
	return groups
}

// callRef is the k-th call of message i.
type callRef struct{ i, k int }

// answered finds the result of each call: of the results with its id that lie
// nearer to no later call, the first.
func answered(messages []Message) map[callRef]int {
	answers := map[callRef]int{}
	newest := map[string][]callRef{} // calls with an id, of the nearest message that has it
	for j, m := range messages {
		for k, call := range m.ToolCalls {
			refs := newest[call.ID]
			if len(refs) > 0 && refs[0].i != j {
				refs = nil
			}
			newest[call.ID] = append(refs, callRef{j, k})
		}
		if m.ToolResult == nil {
			continue
		}
		for _, ref := range newest[m.ToolResult.CallID] {
			if _, done := answers[ref]; !done {
				answers[ref] = j
				break
			}
		}
	}
	return answers
}

// WindowMessages are copies of the messages the window shows: those kept,
// then the transcript from its start.
func (s Session) WindowMessages() []Message {
	return s.b.msgs.copies(0, func(m *Message) bool { return s.Shown(m.Seq) })
}

// UnknownOutcome is the text of the synthetic result of a call that was
// started and whose end nobody saw.
const UnknownOutcome = "outcome unknown: the process ended while this call was running; it may or may not have taken effect"

// noResult is the text sent for a call whose result is not in the transcript.
const noResult = "no result: this call was not run"

// Sendable is a transcript every provider accepts: it starts with a user
// message, each tool call has exactly one result directly after it, in the
// order of the calls, and no result stands without its call. What is already
// so is returned as it is. Repairs are synthetic results; the log keeps what
// was written.
func Sendable(messages []Message) []Message {
	if ValidTranscript(messages) == nil {
		return messages
	}
	start := slices.IndexFunc(messages, func(m Message) bool { return m.Role == RoleUser })
	if start < 0 {
		return nil
	}
	var out []Message
	for _, m := range messages[:start] {
		if m.Role == RoleSystem || m.Role == RoleDeveloper {
			out = append(out, m)
		}
	}
	rest := messages[start:]
	answers := answered(rest)
	for i, m := range rest {
		if m.Role == RoleTool {
			continue // placed behind its call
		}
		out = append(out, m)
		for k, call := range m.ToolCalls {
			if at, ok := answers[callRef{i, k}]; ok {
				out = append(out, rest[at])
				continue
			}
			out = append(out, Message{
				ID: m.ID + "/" + call.ID, Role: RoleTool, CreatedAt: m.CreatedAt, ExecutionID: m.ExecutionID, StepID: m.StepID,
				ToolResult: &ToolResult{CallID: call.ID, ToolName: call.Name, Content: noResult, IsError: true, Synthetic: true},
			})
		}
	}
	return out
}

// ValidTranscript refuses a transcript that a provider would: see Sendable.
// An empty one is valid.
func ValidTranscript(messages []Message) error {
	spoken := false
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		switch {
		case m.Role == RoleTool:
			return invalid("messages", "message %d is a tool result without a call before it", i)
		case m.Role == RoleUser:
			spoken = true
		case m.Role == RoleAssistant && !spoken:
			return invalid("messages", "message %d is an assistant's before any user message", i)
		}
		for k, call := range m.ToolCalls {
			j := i + 1 + k
			if j >= len(messages) || messages[j].ToolResult == nil || messages[j].ToolResult.CallID != call.ID {
				return invalid("messages", "call %s of message %d is not answered directly after it", quoted(call.ID), i)
			}
		}
		i += len(m.ToolCalls)
	}
	return nil
}

// Shown reports whether the window shows the message with this number.
func (s Session) Shown(seq int64) bool {
	w := s.b.st.Window
	return seq >= w.FromSeq || slices.Contains(w.Keep, seq)
}
