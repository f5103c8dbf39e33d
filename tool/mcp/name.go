package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is how long a name may be for every provider, and maxID how much of
// it is the server's.
const (
	maxName = 64
	maxID   = 24
)

// nameOf is the name of a server's tool for a model: id__tool. Where letters
// had to be replaced or cut, or where the id would make the border unclear, a
// hash of both keeps it distinct. It depends on nothing else, so that a tool
// has one name in every session.
func nameOf(id, tool string) string {
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

// plainName replaces what providers do not take in a name.
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
