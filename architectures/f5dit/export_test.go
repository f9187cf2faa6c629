package f5dit

// TimeFrequencies are those of the embedding of times.
var TimeFrequencies = timeFrequencies
