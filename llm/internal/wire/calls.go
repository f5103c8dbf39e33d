package wire

import (
	"fmt"
	"regexp"
)

// CallIDs gives the calls of one transcript ids that every provider takes. An
// id that is fit and new is kept, so that what a provider wrote comes back to
// it; any other, written by another provider or repeated, is replaced. Results
// follow their calls in order and take the ids in that order.
type CallIDs struct {
	used    map[string]bool
	waiting []string
}

// Providers take 40 or 64 characters, and some only these.
var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Call is the id of the next call.
func (c *CallIDs) Call(id string) string {
	if c.used == nil {
		c.used = map[string]bool{}
	}
	for n := len(c.used); !callID.MatchString(id) || c.used[id]; n++ {
		id = fmt.Sprintf("call_%d", n)
	}
	c.used[id] = true
	c.waiting = append(c.waiting, id)
	return id
}

// Result is the id of the call that the next result answers.
func (c *CallIDs) Result() string {
	if len(c.waiting) == 0 { // a transcript that providers accept has no such result
		return ""
	}
	id := c.waiting[0]
	c.waiting = c.waiting[1:]
	return id
}

var (
	toolName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// ToolName is a name that every provider takes. Models invent names that none
// would accept back.
func ToolName(name string) string {
	if toolName.MatchString(name) {
		return name
	}
	name = notInNames.ReplaceAllString(name, "_")
	if name == "" || name == "_" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}
