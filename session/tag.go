package session

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"slices"
)

const (
	// maxTags is how many metadata keys of a session have tags. A session with
	// more has none, so that the cost of a save stays bounded.
	maxTags = 256

	// maxTagged is the length of an encoded value up to which its tag covers the
	// value. Longer values of one key share a tag.
	maxTagged = 1 << 10
)

// Tags returns a number for each metadata key with a string value, sorted, for
// a store's index. Different pairs may have the same tag, so that tags narrow a
// search and the metadata decides. It is false for a session with too many keys
// to have tags.
func Tags(s Session) (tags []int64, ok bool) {
	tags = []int64{}
	if len(s.b.st.Metadata) > maxTags {
		return tags, false
	}
	for key, raw := range s.b.st.Metadata {
		if len(raw) == 0 || raw[0] != '"' {
			continue
		}
		if len(raw) > maxTagged {
			tags = append(tags, tagOf(key, "long", ""))
			continue
		}
		var value string
		if json.Unmarshal(raw, &value) == nil {
			tags = append(tags, tagOf(key, "", value))
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), true
}

// TagsOf returns the tags of which a session with this metadata has one, unless
// it has too many keys to have tags.
func TagsOf(key, value string) [2]int64 {
	return [2]int64{tagOf(key, "", value), tagOf(key, "long", "")}
}

// MayRetag reports whether the tags may differ from those of the last version.
func MayRetag(s Session) bool { return s.b.retag }

// tagOf is part of the stored format.
func tagOf(key, form, value string) int64 {
	h := fnv.New64a()
	var text []byte
	for _, part := range []string{key, form, value} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	_, _ = h.Write(text) // it never fails
	return int64(h.Sum64())
}

// setMetadata changes the metadata, and with it the tags.
func (b *body) setMetadata(v Values) { b.st.Metadata, b.retag = v, true }
