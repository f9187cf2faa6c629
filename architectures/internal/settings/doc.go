// Package settings reads config.json files strictly: typed values with bounds,
// settings that must have the one value that is implemented, and errors that
// name the key.
package settings
