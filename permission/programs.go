package permission

import (
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// DeniedPaths returns the paths that rules deny to programs started by the call,
// whatever its command line says: those denied to every tool, to the call's own,
// and to file_read, since a program reads as well.
func (q Request) DeniedPaths() []string {
	var paths []string
	if q.Policy != nil {
		paths = slices.Clone(q.Policy.closed)
	}
	for i := range q.Rules {
		if closes(&q.Rules[i]) {
			paths = append(paths, q.Rules[i].Scope.Path)
		}
	}
	return paths
}

func closes(r *session.Rule) bool {
	s := r.Scope
	return r.Effect == session.EffectDeny && s.Kind == session.ScopePath && session.Absolute(s.Path) &&
		slices.Contains([]string{"", "shell", "file_read"}, s.ToolName)
}
