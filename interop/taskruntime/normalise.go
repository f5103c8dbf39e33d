package taskruntime

import "slices"

// Kinds of repairs of a history.
const (
	OrphanToolResult    = "orphan_tool_result"             // a result without its call
	MissingToolResult   = "missing_tool_result"            // a call without its result
	DuplicateToolUse    = "duplicate_tool_use"             // a call with an id that was used
	DuplicateToolResult = "duplicate_tool_result"          // a second result
	MixedToolResult     = "mixed_tool_result_user_message" // results among other words
)

// Repair is something that was wrong with a history and no longer is.
type Repair struct {
	Kind    string `json:"kind"`
	Message int    `json:"message"`      // its place before the repairs
	ID      string `json:"id,omitempty"` // of the call
}

// normalise makes a history that providers accept: every call has one result
// in a message of results directly after it, and no result stands alone. Only
// what is wrong goes; a message with nothing left goes too. A history that is
// right stays as it is.
func normalise(turns []passage) ([]passage, []Repair) {
	n := normaliser{used: map[string]bool{}}
	for i := 0; i < len(turns); {
		j := i + 1
		if turns[i].role != roleAssistant {
			n.answers(turns[i:j], i, nil)
			i = j
			continue
		}
		for j < len(turns) && turns[j].role != roleAssistant {
			j++
		}
		n.round(turns[i:j], i)
		i = j
	}
	return n.out, n.repairs
}

type normaliser struct {
	out     []passage
	repairs []Repair
	used    map[string]bool // ids of calls that have their result
}

func (n *normaliser) repair(kind string, message int, id string) {
	n.repairs = append(n.repairs, Repair{Kind: kind, Message: message, ID: id})
}

// round takes in what an assistant said and what was said until it spoke
// again; at is the place of the first.
func (n *normaliser) round(turns []passage, at int) {
	said := turns[0]
	open := map[string]bool{} // calls, and whether they have a result
	var doubles []int
	for i, b := range said.blocks {
		switch {
		case b.kind != blockToolUse || b.id == "" || b.name == "":
		case n.used[b.id], has(open, b.id):
			doubles = append(doubles, i)
		default:
			open[b.id] = false
		}
	}
	before, place := n.out, len(n.out)
	n.out = append(slices.Clip(before), said)
	n.answers(turns[1:], at+1, open)

	said = said.keeping(func(i int, b block) bool {
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
	if said.emptied {
		n.out = slices.Delete(n.out, place, place+1)
		return
	}
	n.out[place] = said
}

func has(open map[string]bool, id string) bool {
	_, ok := open[id]
	return ok
}

// answers takes in messages that are not an assistant's: results first, then
// the rest. Results count for calls that are open.
func (n *normaliser) answers(turns []passage, at int, open map[string]bool) {
	var others []passage
	for k, t := range turns {
		results := t.keeping(func(_ int, b block) bool { return b.kind == blockToolResult })
		rest := t.keeping(func(_ int, b block) bool {
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
		kept := results.keeping(func(_ int, b block) bool {
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
