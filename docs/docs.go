// Package docs has the pages of the documentation, as they are in this folder.
package docs

import "embed"

// Files are the pages and what they show.
//
//go:embed *.md *.svg *.png openapi.json
var Files embed.FS
