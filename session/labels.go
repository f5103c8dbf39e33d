package session

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Labels say more of a stored value than the value itself: what it is found by,
// and until when it is kept.
type Labels struct {
	Tags      []string          `json:"tags,omitempty"` // sorted, each once
	Metadata  map[string]string `json:"metadata,omitempty"`
	ExpiresAt *time.Time        `json:"expiresAt,omitempty"` // nil: never
}

// The limits of labels.
const (
	maxLabels     = 32  // tags, and as many pairs of metadata
	maxLabelBytes = 256 // of a tag, a key and a value
)

// Normal returns labels as they are kept, nil for none, or an InvalidError.
func (l *Labels) Normal() (*Labels, error) {
	if l == nil || len(l.Tags) == 0 && len(l.Metadata) == 0 && l.ExpiresAt == nil {
		return nil, nil
	}
	n := l.Clone()
	slices.Sort(n.Tags)
	n.Tags = slices.Compact(n.Tags)
	if len(n.Tags) > maxLabels || len(n.Metadata) > maxLabels {
		return nil, invalid("labels", "%d tags and %d pairs of metadata: at most %d of each are kept", len(n.Tags), len(n.Metadata), maxLabels)
	}
	for _, tag := range n.Tags {
		if tag == "" || len(tag) > maxLabelBytes || !plain(tag) {
			return nil, invalid("tags", "%s is not 1 to %d bytes of UTF-8 without control characters", quoted(tag), maxLabelBytes)
		}
	}
	for key, value := range n.Metadata {
		if key == "" || len(key) > maxLabelBytes || !plain(key) || len(value) > maxLabelBytes || !plain(value) {
			return nil, invalid("metadata", "%s with %s is not 1 to %d bytes of UTF-8 without control characters, and as many of its value", quoted(key), quoted(value), maxLabelBytes)
		}
	}
	if n.ExpiresAt != nil {
		at := Instant(*n.ExpiresAt)
		n.ExpiresAt = &at
	}
	return n, nil
}

// Clone is a deep copy.
func (l *Labels) Clone() *Labels {
	if l == nil {
		return nil
	}
	c := Labels{Tags: slices.Clone(l.Tags), Metadata: maps.Clone(l.Metadata)}
	if l.ExpiresAt != nil {
		at := *l.ExpiresAt
		c.ExpiresAt = &at
	}
	return &c
}

// Expired reports whether the value is not kept any more at an instant.
func (l *Labels) Expired(at time.Time) bool {
	return l != nil && l.ExpiresAt != nil && !l.ExpiresAt.After(at)
}

// Has reports whether all of the tags and all pairs of the metadata are there.
func (l *Labels) Has(tags []string, metadata map[string]string) bool {
	if l == nil {
		return len(tags) == 0 && len(metadata) == 0
	}
	for _, tag := range tags {
		if !slices.Contains(l.Tags, tag) {
			return false
		}
	}
	for key, want := range metadata {
		if have, ok := l.Metadata[key]; !ok || have != want {
			return false
		}
	}
	return true
}

// spacePrefix begins the scope of a space.
const spacePrefix = "space:"

// Space returns the name of the space that a memory scope names, as "wiki" of
// "space:wiki". A space is memory of a tenant that is shared by whoever names it.
func Space(scope string) (name string, ok bool) {
	name, ok = strings.CutPrefix(scope, spacePrefix)
	return name, ok && name != "" && len(name) <= maxLabelBytes/2 && plain(name) && !strings.Contains(name, "/")
}
