package protocol

import (
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// MediaPart returns an image or a file at an address, or with the data in it.
func MediaPart(kind, url, name string) session.Part {
	p := session.Part{Type: kind, URL: url, Name: name}
	if media, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,"); ok && strings.HasPrefix(url, "data:") {
		p.URL, p.MediaType, p.Data = "", media, data
	}
	return p
}
