package store

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

const (
	searchPage  = 1000  // headers that are read at a time
	searchLimit = 20000 // headers that one call looks at
)

// SearchHeaders lists the sessions that have all words in their headers, by a function
// that lists sessions. One call looks at a limited number of them, so a page may
// have fewer sessions than were asked for, also none, and still a next one.
func SearchHeaders(ctx context.Context, list func(context.Context, Query) (Page, error), q Query, words string) (Page, error) {
	wanted := strings.Fields(strings.ToLower(words))
	if len(wanted) == 0 {
		return list(ctx, q)
	}
	want := cmp.Or(q.Limit, 50)
	q.Limit = searchPage
	found := Page{Items: session.Infos{}}
	for looked := 0; looked < searchLimit; looked += searchPage {
		page, err := list(ctx, q)
		if err != nil {
			return found, err
		}
		found.Corrupt = page.Corrupt
		for _, i := range page.Items {
			if !hasWords(i, wanted) {
				continue
			}
			if found.Items = append(found.Items, i); len(found.Items) == want {
				checked, _, err := q.Check()
				found.Next = checked.CursorAfter(i)
				return found, err
			}
		}
		if found.Next = page.Next; page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	return found, nil
}

// hasWords reports whether the header of a session has all words, which are in
// lower case.
func hasWords(i session.Info, words []string) bool {
	texts := []string{i.ID, i.Name, i.AgentName, i.AgentLabel, i.UserID}
	if i.Task != nil {
		texts = append(texts, i.Task.Title, i.Task.Prompt)
	}
	if i.Workflow != nil {
		texts = append(texts, i.Workflow.Name)
	}
	text := strings.ToLower(strings.Join(texts, "\n"))
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
