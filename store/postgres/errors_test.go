package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/postgres"
)

func TestTranslated_moreThanPostgreSQLHoldsIsTooLarge(t *testing.T) {
	t.Parallel()
	err := postgres.Translated(fmt.Errorf("append: %w", &pgconn.PgError{Code: "54000", Message: "requested length too large"}))
	if !errors.Is(err, session.ErrTooLarge) || !strings.Contains(err.Error(), "requested length") {
		t.Errorf("a value that is too long: %v", err)
	}
	if err := postgres.Translated(&pgconn.PgError{Code: "53100", Message: "disk full"}); errors.Is(err, session.ErrTooLarge) {
		t.Errorf("a full disk: %v", err)
	}
}
