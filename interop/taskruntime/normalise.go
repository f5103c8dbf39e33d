package taskruntime

import "slices"

// Kinds of Repair.
const (
	OrphanToolResult    = "orphan_tool_result"             // a result without its call
	MissingToolResult   = "missing_tool_result"            // a call without its result
	DuplicateToolUse    = "duplicate_tool_use"             // a call with the id of an earlier one
	DuplicateToolResult = "duplicate_tool_result"          // a second result for a call
	MixedToolResult     = "mixed_tool_result_user_message" // results mixed with other content
)

// Repair is one correction of a history.
type Repair struct {
	Kind    string `json:"kind"`
	Message int    `json:"message"`      // its index before the repairs
	ID      string `json:"id,omitempty"` // of the call
}

// normalise makes a history that providers accept: every call has exactly one
// result, in a message of results directly after it, and every result has its
// call. It drops only what breaks this rule, and messages that become empty; a
// correct history stays unchanged.
func normalise(history []historyMessage) ([]historyMessage, []Repair) {
	n := normaliser{used: map[string]bool{}}
	for i := 0; i < len(history); {
		j := i + 1
		if history[i].role != roleAssistant {
			n.addAnswers(history[i:j], i, nil)
			i = j
			continue
		}
		for j < len(history) && history[j].role != roleAssistant {
			j++
		}
		n.addRound(history[i:j], i)
		i = j
	}
	return n.out, n.repairs
}

type normaliser struct {
	out     []historyMessage
	repairs []Repair
	used    map[string]bool // ids of calls that have their result
}

func (n *normaliser) repair(kind string, message int, id string) {
	n.repairs = append(n.repairs, Repair{Kind: kind, Message: message, ID: id})
}

// addRound adds a message of the assistant and all messages up to its next one;
// at is the index of the first.
func (n *normaliser) addRound(history []historyMessage, at int) {
	first := history[0]
	open := map[string]bool{} // calls, and whether they have a result
	var doubles []int
	for i, b := range first.blocks {
		switch {
		case b.kind != blockToolUse || b.id == "" || b.name == "":
		case n.used[b.id], has(open, b.id):
			doubles = append(doubles, i)
		default:
			open[b.id] = false
		}
	}
	before, place := n.out, len(n.out)
	n.out = append(slices.Clip(before), first)
	n.addAnswers(history[1:], at+1, open)

	first = first.filter(func(i int, b block) bool {
		switch {
		case b.kind == blockToolResult:
			n.repair(OrphanToolResult, at, b.id)
			return false
		case b.kind != blockToolUse:
			return true
		case slices.Contains(doubles, i):
			n.repair(DuplicateToolUse, at, b.id)
			return false
		case b.name == "" || !open[b.id]:
			n.repair(MissingToolResult, at, b.id)
			return false
		}
		n.used[b.id] = true
		return true
	})
	if first.emptied {
		n.out = slices.Delete(n.out, place, place+1)
		return
	}
	n.out[place] = first
}

func has(open map[string]bool, id string) bool {
	_, ok := open[id]
	return ok
}

// addAnswers adds messages that are not the assistant's: results first, then the
// rest. Results without an open call are dropped.
func (n *normaliser) addAnswers(history []historyMessage, at int, open map[string]bool) {
	var others []historyMessage
	for k, t := range history {
		results := t.filter(func(_ int, b block) bool { return b.kind == blockToolResult })
		rest := t.filter(func(_ int, b block) bool {
			switch b.kind {
			case blockToolResult:
				return false
			case blockToolUse:
				n.repair(MissingToolResult, at+k, b.id)
				return false
			}
			return true
		})
		if !t.hasResults() {
			if !rest.emptied {
				others = append(others, rest)
			}
			continue
		}
		kept := results.filter(func(_ int, b block) bool {
			answered, ok := open[b.id]
			switch {
			case !ok:
				n.repair(OrphanToolResult, at+k, b.id)
				return false
			case answered:
				n.repair(DuplicateToolResult, at+k, b.id)
				return false
			}
			open[b.id] = true
			return true
		})
		if !rest.emptied || len(others) > 0 && !kept.emptied {
			n.repair(MixedToolResult, at+k, "")
		}
		if !kept.emptied {
			n.out = append(n.out, kept)
		}
		if !rest.emptied {
			others = append(others, rest)
		}
	}
	n.out = append(n.out, others...)
}
