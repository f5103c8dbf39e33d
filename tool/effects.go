package tool

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// Effects is what a tool does to the world, as it declares it. A tool that
// declares nothing is unknown, which is not the same as harmless.
type Effects uint16

// The effects.
const (
	Read     Effects = 1 << iota // looks at files
	Write                        // makes and changes files
	Delete                       // removes files
	Shell                        // runs commands
	Network                      // asks the network, and tells it nothing
	Export                       // sends data out
	External                     // acts in a service of somebody else
	Browser                      // works a browser
	System                       // works the computer: its screen, keys, programs
	Location                     // learns where the user is
	MCP                          // is a tool of an MCP server
)

// ShellPath is the one shell that command lines are for: permissions read its
// language, and a tool runs it.
const ShellPath = "/bin/sh"

// Interact is the effects that act in the user's stead.
const Interact = Browser | System

var effectNames = []string{
	"read", "write", "delete", "shell", "network", "export", "external", "browser", "system", "location", "mcp",
}

// ParseEffects reads effects by their names. An unknown name is an
// InvalidError.
func ParseEffects(names ...string) (Effects, error) {
	var e Effects
	for _, name := range names {
		i := slices.Index(effectNames, name)
		if i < 0 {
			return 0, &session.InvalidError{Field: "effects", Reason: name + " is none of " + strings.Join(effectNames, ", ")}
		}
		e |= 1 << i
	}
	return e, nil
}

// Names lists the effects.
func (e Effects) Names() []string {
	names := []string{}
	for i, name := range effectNames {
		if e.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// Has reports whether any of some effects is there.
func (e Effects) Has(some Effects) bool { return e&some != 0 }

// Within reports effects that are declared and none but some.
func (e Effects) Within(some Effects) bool { return e != 0 && e&^some == 0 }
