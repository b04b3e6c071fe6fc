"""Whatever combines gathered rows and keeps channels apart: pooling, small channelwise convolutions."""
