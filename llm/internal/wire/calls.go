package wire

import (
	"fmt"
	"regexp"
)

// CallIDs gives the calls of one transcript ids that every provider accepts. A
// valid, new id is kept, so that a provider gets its own ids back; an invalid or
// repeated one is replaced. Results must come in the order of their calls.
type CallIDs struct {
	used    map[string]bool
	waiting []string
}

// Providers accept 40 or 64 characters, some only these.
var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Call returns the id for the next call.
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

// Result returns the id for the next result.
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

// ToolName makes a name that every provider accepts: models invent others.
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
