package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name that every provider accepts, maxID the part of it
// that the server's id may take.
const (
	maxName = 64
	maxID   = 24
)

// toolName returns the name that a model sees: id__tool. If characters had to be
// replaced or cut, or the id itself could end in the separator, a hash of both
// keeps it distinct. It depends on nothing else, so that a tool has the same
// name in every session.
func toolName(id, tool string) string {
	plainID, plainTool := plainName(id), plainName(tool)
	name := plainID + "__" + plainTool
	if plainID == id && plainTool == tool && len(name) <= maxName && len(id) <= maxID && !strings.Contains(id+"_", "__") {
		return name
	}
	sum := sha256.Sum256([]byte(id + "\x00" + tool))
	hash := "_" + hex.EncodeToString(sum[:5])
	name = cutTo(plainID, maxID) + "__" + plainTool
	return cutTo(name, maxName-len(hash)) + hash
}

// plainName replaces characters that providers do not accept in a name.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

func cutTo(name string, most int) string { return name[:min(len(name), most)] }
