package postgres

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// statement is SQL with parameters that have names, read once. The driver's
// own way reads the text anew at every call, which a save would feel.
type statement struct {
	sql   string
	names []string // of $1, $2, …
}

var parameter = regexp.MustCompile(`@[a-z_]+`)

// named is a statement whose parameters are written @name.
func named(sql string) statement {
	var st statement
	st.sql = parameter.ReplaceAllStringFunc(sql, func(name string) string {
		at := slices.Index(st.names, name[1:])
		if at < 0 {
			at = len(st.names)
			st.names = append(st.names, name[1:])
		}
		return "$" + strconv.Itoa(at+1)
	})
	return st
}

// values are a statement's parameters in order, each taken from the first of
// several sets that has it.
func (st statement) values(sets ...pgx.NamedArgs) []any {
	values := make([]any, len(st.names))
	for i, name := range st.names {
		for _, set := range sets {
			if value, ok := set[name]; ok {
				values[i] = value
				break
			}
		}
	}
	return values
}
