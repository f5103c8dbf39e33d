package wire

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Media is the checked data of a part: providers refuse a whole transcript for
// one part that is not base64 or has no type.
type Media struct {
	Data string // base64, standard alphabet
	Type string // image/png …
}

// MediaOf returns the data of a part or of its data URL. ok is false if there is
// none that can be sent.
func MediaOf(p session.Part) (m Media, ok bool) {
	m = Media{Data: p.Data, Type: p.MediaType}
	if m.Data == "" {
		head, data, found := strings.Cut(strings.TrimPrefix(p.URL, "data:"), ";base64,")
		if !found || !strings.HasPrefix(p.URL, "data:") {
			return m, false
		}
		m.Data = data
		if m.Type == "" {
			m.Type = head
		}
	}
	decoded, err := base64.StdEncoding.DecodeString(m.Data)
	if err != nil || len(decoded) == 0 {
		return m, false
	}
	m.Data = base64.StdEncoding.EncodeToString(decoded) // removes line breaks
	if m.Type == "" {
		m.Type = http.DetectContentType(decoded)
	}
	if m.Type, _, err = mime.ParseMediaType(m.Type); err != nil {
		return m, false
	}
	return m, true
}

// Text returns the data as text, if it is text.
func (m Media) Text() (string, bool) {
	decoded, err := base64.StdEncoding.DecodeString(m.Data)
	text := string(decoded)
	return text, err == nil && strings.HasPrefix(m.Type, "text/") && utf8.ValidString(text) && strings.TrimSpace(text) != ""
}

// LinkOf returns the address of a part, if a provider can fetch it.
func LinkOf(p session.Part) (string, bool) {
	return p.URL, strings.HasPrefix(p.URL, "https://") || strings.HasPrefix(p.URL, "http://")
}

// Placeholder returns a text for a part that the protocol cannot send, so that
// nothing is dropped silently.
func Placeholder(p session.Part) string {
	text := "[" + p.Type
	if p.Name != "" {
		text += fmt.Sprintf(" %q", p.Name)
	}
	if link, ok := LinkOf(p); ok {
		text += " at " + link
	}
	return text + " left out: it cannot be sent to this model]"
}

// PlainText returns content for a field that accepts only text, without
// reasoning and parts of other providers.
func PlainText(content session.Content) string {
	var texts []string
	for _, p := range content {
		switch p.Type {
		case session.PartText:
			texts = append(texts, p.Text)
		case session.PartImage, session.PartFile, session.PartAudio:
			texts = append(texts, Placeholder(p))
		}
	}
	return strings.Join(texts, "\n")
}
