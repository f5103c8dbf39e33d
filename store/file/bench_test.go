package file_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

// long is a saved session with so many messages of about a kilobyte.
func long(b *testing.B, messages int) (*file.Store, session.Session) {
	b.Helper()
	st := open(b, filepath.Join(b.TempDir(), "sessions"), file.Config{})
	s := create(b, st, "a")
	for i := range messages {
		m := session.Message{ID: fmt.Sprint(i), Role: session.RoleUser, Content: session.Text(strings.Repeat("words ", 160))}
		var err error
		if s, err = s.WithMessage(m, noon()); err != nil {
			b.Fatal(err)
		}
	}
	return st, save(b, st, s, store.Commit{At: noon()})
}

// Saving one small change costs as much as the session is long.
func BenchmarkSave(b *testing.B) {
	for _, messages := range []int{10, 1000} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			st, s := long(b, messages)
			for i := 0; b.Loop(); i++ {
				next, err := s.WithMetadata("turn", fmt.Append(nil, i), noon())
				if err != nil {
					b.Fatal(err)
				}
				s = save(b, st, next, store.Commit{At: noon()})
			}
		})
	}
}

// Appending to the tail costs the same however long session and tail are.
func BenchmarkAppend(b *testing.B) {
	for _, messages := range []int{10, 1000} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			st, s := long(b, messages)
			for i := 0; b.Loop(); i++ {
				next, err := s.WithMetadata("turn", fmt.Append(nil, i), noon())
				if err != nil {
					b.Fatal(err)
				}
				s = appendTail(b, st, next)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, messages := range []int{10, 1000} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			st, _ := long(b, messages)
			for b.Loop() {
				load(b, st, "a")
			}
		})
	}
}
