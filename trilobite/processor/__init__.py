"""Lobe 3: the deep-learning processor. Of the other rooms it imports only base and native."""
